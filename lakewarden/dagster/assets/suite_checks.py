"""The checks of users' suites: some scopes a run, those that failed before first; a failure is kept in the warehouse, where it
blocks vacuums of that scope, as those of `assets.checks`.

No `from __future__ import annotations` where Dagster reads a signature: it reads the config class from the annotation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.state.failed_checks import CheckResult
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.checks import (
    CheckConfig,
    behind_results,
    failed_before,
    keep_results,
    lift_expectations,
    result_of,
)
from lakewarden.dagster.assets.expectations import Verdict, validate_pandas, validate_spark
from lakewarden.dagster.assets.health import health_key
from lakewarden.dagster.assets.looks import CheckOutcome, FailedScope, ScopeUnderCheck, look_at, next_turn, rows_of, spark_rows
from lakewarden.dagster.assets.suites import LOADS, UNEXPECTED_ROWS, ExpectedCheck, Suite
from lakewarden.dagster.lakehouse import LAKE, SPARK, WarehouseRun, lake_of, spark_of
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.spark_session import SparkResource
from lakewarden.delta.parquet.schema import rows_schema
from lakewarden.errors import ConstraintViolation, Terminal, Transient
from lakewarden.tables.warehouse import cold_tables

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


# Evaluates the expectations of a suite on one scope: on pandas; on Spark a large scope, and expectations that are queries.
_OF_TYPES = frozenset({"expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"})
_BOUNDS = frozenset({"min_value", "max_value"})
_LONGEST = 500


@dataclass(frozen=True)
class _Made:
    """An expectation of a suite as an object of Great Expectations."""

    check: ExpectedCheck
    place: int
    expectation: "Expectation"
    on_spark: bool


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
            made.append(_Made(one, place, one.made(place, arguments), on_spark))
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
    rows = spark_rows(look, _columns(look), spark).persist()
    try:
        return validate_spark(rows, [one.expectation for one in ours])
    finally:
        rows.unpersist()


def _on_pandas(look: ScopeUnderCheck, made: Sequence[_Made]) -> list[Verdict]:
    """Types are those of the values that are there: pandas has no whole numbers beside NULLs."""
    ours = [one for one in made if not one.on_spark]
    rows = rows_of(look, _columns(look)) if ours else pa.table({})
    of_types = [one for one in ours if one.check.type in _OF_TYPES and one.check.arguments.get("column") in rows.column_names]
    others = [one for one in ours if one not in of_types]
    found = validate_pandas(rows, [one.expectation for one in others]) if others else []
    for one in of_types:
        found += validate_pandas(rows.select([str(one.check.arguments["column"])]).drop_null(), [one.expectation])
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


LAP = "-expectations"
"""Behind a table's id: the rounds of its suite, which go by themselves."""


def expect_step(mount: Mount, table: TableName) -> str:
    """The name of the step that checks a table's suite."""
    return mount.table_named("expect", table)


def checks_of(suite: Suite) -> dict[str, str]:
    """The checks of a suite, with what each shows."""
    if suite.error:
        return {LOADS: f"The suite of {suite.name} can be read."}
    return {one.name: one.description for one in suite.checks}


def build_expectation_checks(mount: Mount, catalog: Catalog, suites: Sequence[Suite]) -> list[dg.AssetChecksDefinition]:
    """A step for each table that has a suite, and one of the warehouse's health where a suite has no table."""
    tables = {table.name: table for table in cold_tables(catalog)}
    of_tables = [_of_suite(mount, tables[suite.table], suite) for suite in suites if suite.table in tables and checks_of(suite)]
    return [*of_tables, *(_of_strays(mount, result) for result in stray_results(mount, catalog, suites))]


def stray_results(mount: Mount, catalog: Catalog, suites: Sequence[Suite]) -> list[dg.AssetCheckResult]:
    """A warning where suites have no table; nothing without tables, when there is no health either."""
    tables = {table.name for table in cold_tables(catalog)}
    strays = [suite.name for suite in suites if suite.table not in tables]
    if not tables or not strays:
        return []
    why = "no such table with rows to check; a suite is named as its table, namespace.table"
    return [
        dg.AssetCheckResult(
            asset_key=health_key(mount),
            check_name=LOADS,
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"expectations of {', '.join(strays)}: {why}",
        )
    ]


def _of_strays(mount: Mount, result: dg.AssetCheckResult) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name=LOADS,
        asset=health_key(mount),
        description="Each suite of expectations is of a table.",
        pool=mount.pools.checks,
    )
    def check() -> dg.AssetCheckResult:
        return result

    return check


def load_failures(mount: Mount, catalog: Catalog, suites: Sequence[Suite]) -> list[dg.AssetCheckResult]:
    """The failures of suites that cannot be read, or have no table: nothing of the warehouse is read for them."""
    tables = {table.name for table in cold_tables(catalog)}
    unread = [_unread(mount.asset_key(suite.table), suite) for suite in suites if suite.error and suite.table in tables]
    return [*unread, *stray_results(mount, catalog, suites)]


def _unread(key: dg.AssetKey, suite: Suite) -> dg.AssetCheckResult:
    why = f"the suite cannot be read: {suite.error}"
    return dg.AssetCheckResult(asset_key=key, check_name=LOADS, passed=False, description=why)


def _of_suite(mount: Mount, table: Table, suite: Suite) -> dg.AssetChecksDefinition:
    key = mount.asset_key(table.name)

    @dg.multi_asset_check(
        name=expect_step(mount, table.name),
        description=f"Checks the expectations of {table.name} in some scopes: those that failed, then those checked longest ago.",
        required_resource_keys={mount.named(LAKE), mount.named(SPARK)},
        specs=[dg.AssetCheckSpec(name, asset=key, description=text) for name, text in checks_of(suite).items()],
        pool=mount.pools.checks,
        can_subset=True,
    )
    def expect(context: dg.AssetCheckExecutionContext, config: CheckConfig) -> Iterator[dg.AssetCheckResult]:
        if suite.error:
            yield _unread(key, suite)
            return
        lake = lake_of(context, mount)
        selected = {one.name for one in context.selected_asset_check_keys}
        current, spark = lake.table(str(table.name)).table, spark_of(context, mount)
        found = _expected(lake, current, key, suite, selected, config, spark)
        yield from behind_results(WarehouseRun.of(context, mount), table.name, found)

    return expect


def _expected(
    lake: Lakehouse, table: Table, key: dg.AssetKey, suite: Suite, selected: set[str], config: CheckConfig, spark: SparkResource
) -> Iterator[dg.AssetCheckResult]:
    turn = next_turn(lake, table, config.users, config.scopes, LAP)
    places = [place for place, one in enumerate(suite.checks) if one.name in selected]
    opened = look_at(lake, turn.scopes).opened
    evaluated = [(look, of_scope) for look in opened if (of_scope := _evaluated(look, suite, places, spark, config))]
    looks, found = [look for look, _ in evaluated], [of_scope for _, of_scope in evaluated]
    left = failed_before(lake, table, turn)
    for place in places:
        one = suite.checks[place]
        outcome = _outcome(one.name, looks, [of_scope[place] for of_scope in found])
        keep_results(lake, table, one.name, looks, outcome)
        seen = replace(turn, scopes=[look.target.scope for look in looks])
        yield result_of(key, one.name, seen, looks, outcome, left.get(one.name, ()), only_warns=one.only_warns)
    lift_expectations(lake, table, looks, kept={one.name for one in suite.checks})
    if len(places) == len(suite.checks):
        turn.note(lake)


def _evaluated(
    look: ScopeUnderCheck, suite: Suite, places: Sequence[int], spark: SparkResource, config: CheckConfig
) -> Mapping[int, Verdict] | None:
    """None where the scope cannot be reached now: it is not among those that were checked, and what is known of it stands."""
    try:
        return evaluate(look, suite, places, spark, config.spark_above)
    except Transient as error:
        dg.get_dagster_logger().warning("%s is not checked: %s", look.target.scope, error)
        return None


def _why(verdict: Verdict) -> str:
    """Without values of rows: it is kept."""
    if verdict.error:
        return f"it could not be evaluated: {verdict.error}"
    rows = "1 row violates" if verdict.unexpected == 1 else f"{verdict.unexpected:,} rows violate"
    return f"{rows} it" if verdict.unexpected else "it is violated"


def _outcome(check: str, looks: Sequence[ScopeUnderCheck], verdicts: Sequence[Verdict]) -> CheckOutcome:
    found = list(zip(looks, verdicts, strict=True))
    kept = [
        CheckResult(
            look.target.scope.user,
            check,
            look.table.version,
            verdict.passed,
            ConstraintViolation.code,
            "" if verdict.passed or verdict.error else _why(verdict),
        )
        for look, verdict in found
    ]
    failed = [FailedScope(look.user, _shown(verdict)) for look, verdict in found if not verdict.passed]
    unexpected = sum(verdict.unexpected for verdict in verdicts if not verdict.passed)
    return CheckOutcome(failed, unexpected, checked=kept)


def _shown(verdict: Verdict) -> str:
    examples = f", such as {', '.join(verdict.examples[:3])}" if verdict.examples else ""
    return _why(verdict) + examples
