"""A small factory over Great Expectations 1.x: rows and some expectations in, verdicts out.

dagster-ge still needs Great Expectations below 1.0. Version 1 needs only an ephemeral context and a batch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewarden.dagster.assets.suites import PLACE, old_modules

if TYPE_CHECKING:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext
    from great_expectations.expectations.expectation import Expectation
    from pyspark.sql import DataFrame

_SHOWN = 20
"""The most rows that a verdict shows: enough to find the fault, few enough for Dagster's event log."""


@dataclass(frozen=True)
class Verdict:
    """What one expectation found. `unexpected` is the number of rows that violate it, `examples` are some of them as text."""

    expectation: str
    passed: bool
    unexpected: int
    examples: tuple[str, ...]
    error: str
    """Why it could not be evaluated; empty if it could."""
    place: int | None = None
    """That of an expectation of a user's suite (`suites.PLACE`)."""


def validate_pandas(rows: pa.Table, expected: Sequence[Expectation]) -> list[Verdict]:
    """On pandas: the engine for small scopes, milliseconds once it is loaded."""
    batches = _context().data_sources.add_pandas("scopes").add_dataframe_asset("rows")
    return _validate(batches.add_batch_definition_whole_dataframe("all"), _frame(rows), expected)


def _frame(rows: pa.Table) -> object:
    """Whole numbers and decimals stay exact beside NULLs. Among decimals a NULL is NaN, since Great Expectations makes floats of
    them for a sum."""
    frame = rows.to_pandas(integer_object_nulls=True)
    for field in rows.schema:
        if pa.types.is_decimal(field.type):
            frame[field.name] = frame[field.name].map(lambda value: math.nan if value is None else value)
    return frame


def validate_spark(rows: DataFrame, expected: Sequence[Expectation]) -> list[Verdict]:
    """On the active Spark session: the engine for large scopes."""
    # Given a config it might restart the session; persist would keep every checked scope in the executors' memory.
    batches = _context().data_sources.add_spark("scopes", persist=False).add_dataframe_asset("rows")
    return _validate(batches.add_batch_definition_whole_dataframe("all"), rows, expected)


def _context() -> EphemeralDataContext:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # it would send usage data, and wait for the network
    with old_modules():
        import great_expectations as gx
        from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context


def _validate(batches: BatchDefinition[Any], rows: object, expected: Sequence[Expectation]) -> list[Verdict]:
    from great_expectations.core import ExpectationSuite

    suite = ExpectationSuite(name="scopes", expectations=list(expected))
    with old_modules():
        found = batches.get_batch({"dataframe": rows}).validate(suite)
    return [_verdict(result) for result in found.results]


def _verdict(result: ExpectationValidationResult) -> Verdict:
    found = result.result
    examples = dict.fromkeys(map(str, found.get("partial_unexpected_list") or []))  # a repeated key is in it for each row
    return Verdict(
        expectation=result.expectation_config.type if result.expectation_config else "",
        passed=bool(result.success),
        unexpected=int(found.get("unexpected_count") or 0),
        examples=tuple(examples)[:_SHOWN],
        error=_error(result),
        place=(result.expectation_config.meta or {}).get(PLACE) if result.expectation_config else None,
    )


def _error(result: ExpectationValidationResult) -> str:
    """The error of an expectation that failed to run; it is recorded once, or once per metric."""
    info = result.exception_info or {}
    raised = [info] if "raised_exception" in info else [one for one in info.values() if isinstance(one, dict)]
    return "; ".join(str(one.get("exception_message")) for one in raised if one.get("raised_exception"))
