"""Evaluates the expectations of a suite on one scope: on pandas; on Spark a large scope, and expectations that are queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewarden.dagster.assets.expectations import Verdict, validate_pandas, validate_spark
from lakewarden.dagster.assets.looks import ScopeUnderCheck, rows_of, spark_rows
from lakewarden.dagster.assets.suites import UNEXPECTED_ROWS, ExpectedCheck, Suite
from lakewarden.dagster.resources.spark import SparkResource
from lakewarden.delta.parquet.schema import rows_schema
from lakewarden.errors import Terminal

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

_OF_TYPES = frozenset({"expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"})
_BOUNDS = frozenset({"min_value", "max_value"})
_LONGEST = 500


@dataclass(frozen=True)
class _Made:
    """An expectation of a suite as an object of Great Expectations."""

    check: ExpectedCheck
    place: int
    expectation: Expectation
    on_spark: bool

    def __call__(self) -> Expectation:
        return self.expectation


def evaluate(
    look: ScopeUnderCheck, suite: Suite, places: Sequence[int], spark: SparkResource, spark_above: int
) -> Mapping[int, Verdict]:
    """The verdicts by place in the suite. What cannot be evaluated or read is a failure with its error.

    Raises:
        Transient: the scope cannot be reached now.
    """
    made, wrong = list[_Made](), dict[int, Verdict]()
    is_large = look.bytes > spark_above
    for place in places:
        one = suite.checks[place]
        on_spark = is_large or one.type == UNEXPECTED_ROWS
        arguments = _with_moments(one.arguments, rows_schema(look.target.schema), on_spark)
        try:
            made.append(_Made(one, place, one.maker(place, arguments)(), on_spark))
        except Exception as error:  # noqa: BLE001  # whatever Great Expectations finds wrong with what a user wrote
            wrong[place] = _unevaluated(f"{type(error).__name__}: {error}")
    try:
        found = [*_on_pandas(look, made), *_on_spark(look, made, spark)]
    except Terminal as error:
        return wrong | {one.place: _unevaluated(f"{error.code}: {error}") for one in made}
    missing = _unevaluated("Great Expectations gave no result for it")
    by_place = {verdict.place: verdict for verdict in found}
    return wrong | {one.place: by_place.get(one.place, missing) for one in made}


def _unevaluated(error: str) -> Verdict:
    return Verdict("", passed=False, unexpected=0, examples=(), error=error[:_LONGEST])


def _on_spark(look: ScopeUnderCheck, made: Sequence[_Made], spark: SparkResource) -> list[Verdict]:
    """Kept meanwhile: each expectation has jobs of its own, and each would read the scope again."""
    ours = [one for one in made if one.on_spark]
    if not ours:
        return []
    rows = spark_rows([look], _columns(look), spark).persist()
    try:
        return validate_spark(rows, *ours)
    finally:
        rows.unpersist()


def _on_pandas(look: ScopeUnderCheck, made: Sequence[_Made]) -> list[Verdict]:
    """Types are those of the values that are there: pandas has no whole numbers beside NULLs."""
    ours = [one for one in made if not one.on_spark]
    rows = rows_of(look, _columns(look)) if ours else pa.table({})
    of_types = [one for one in ours if one.check.type in _OF_TYPES and one.check.arguments.get("column") in rows.column_names]
    others = [one for one in ours if one not in of_types]
    found = validate_pandas(rows, *others) if others else []
    for one in of_types:
        found += validate_pandas(rows.select([str(one.check.arguments["column"])]).drop_null(), one)
    return found


def _columns(look: ScopeUnderCheck) -> list[str]:
    return [column.name for column in look.target.schema.shown]


def _with_moments(arguments: Mapping[str, object], schema: pa.Schema, on_spark: bool) -> Mapping[str, object]:
    """Bounds of a column of moments are in UTC where they have no offset.

    pandas compares a moment with a bound that has an offset. Spark gives moments to Python in the local time of the process,
    without one, and takes them so.
    """
    column = arguments.get("column")
    if column not in schema.names or not _is_moment(schema.field(str(column)).type):
        return arguments
    return {name: _moment(value, on_spark) if name in _BOUNDS else value for name, value in arguments.items()}


def _is_moment(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _moment(value: object, on_spark: bool) -> object:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return value
    if found is None:
        return value
    moment = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (moment.astimezone().replace(tzinfo=None) if on_spark else moment).isoformat()
