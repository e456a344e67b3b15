"""The checks of users' suites: some scopes a run, those that failed before first; a failure is kept in the warehouse, where it
blocks vacuums of that scope, as those of `assets.checks`.

No `from __future__ import annotations` where Dagster reads a signature: it reads the config class from the annotation.
"""

from collections.abc import Iterator, Mapping, Sequence

import dagster as dg
import pyarrow as pa

from lakewarden.catalog.model import Catalog, Table
from lakewarden.dagster.assets.checks import CheckConfig, Failed, failed_before, said, scopes_shown
from lakewarden.dagster.assets.expectations import Verdict, validate_pandas, validate_spark
from lakewarden.dagster.assets.looks import Look, look_at, spark_rows
from lakewarden.dagster.assets.suites import LOADS, Suite
from lakewarden.dagster.assets.turns import Turn, next_turn
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.resources.lakehouse import LAKE, SPARK, lake_of, spark_of
from lakewarden.dagster.resources.spark import SparkResource
from lakewarden.delta.parquet.schema import rows_schema
from lakewarden.errors import ConstraintViolation
from lakewarden.lakehouse import Lakehouse
from lakewarden.scope import TableName
from lakewarden.state.failed_checks import EXPECTATION, LATEST, Checked
from lakewarden.warehouse import cold_tables

LAP = "-expectations"
"""Behind a table's id: the rounds of its suite, which go by themselves."""


def expect_step(mount: Mount, table: TableName) -> str:
    """The name of the step that checks a table's suite."""
    return mount.table_named("expect", table)


def checks_of(suite: Suite) -> dict[str, str]:
    """The checks of a suite, with what each shows."""
    if suite.error:
        return {LOADS: f"The suite of {suite.table} can be read."}
    return {one.name: one.description for one in suite.checks}


def build_expectation_checks(mount: Mount, catalog: Catalog, suites: Sequence[Suite]) -> list[dg.AssetChecksDefinition]:
    """A step for each table that has a suite."""
    tables = {table.name: table for table in cold_tables(catalog)}
    for suite in suites:
        if suite.table not in tables:
            dg.get_dagster_logger().warning("expectations of %s: there is no such table with rows to check", suite.table)
    return [_of_suite(mount, tables[suite.table], suite) for suite in suites if suite.table in tables and checks_of(suite)]


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
            why = f"the suite cannot be read: {suite.error}"
            yield dg.AssetCheckResult(asset_key=key, check_name=LOADS, passed=False, description=why)
            return
        lake = lake_of(context, mount)
        selected = {one.name for one in context.selected_asset_check_keys}
        yield from _expected(lake, lake.table(str(table.name)).table, key, suite, selected, config, spark_of(context, mount))

    return expect


def _expected(
    lake: Lakehouse, table: Table, key: dg.AssetKey, suite: Suite, selected: set[str], config: CheckConfig, spark: SparkResource
) -> Iterator[dg.AssetCheckResult]:
    turn = next_turn(lake, table, config.users, config.scopes, LAP)
    looks = look_at(lake, turn.scopes).opened
    places = [place for place, one in enumerate(suite.checks) if one.name in selected]
    found = [_verdicts(look, suite, places, spark, config.spark_above) for look in looks]
    left = failed_before(lake, table, turn)
    for place in places:
        name = suite.checks[place].name
        verdicts = [of_scope[place] for of_scope in found]
        _keep(lake, table, name, looks, verdicts)
        yield _result(key, name, turn, looks, verdicts, left.get(name, ()))
    _lift(lake, table, suite, looks)
    if len(places) == len(suite.checks):
        turn.note(lake)


def _verdicts(look: Look, suite: Suite, places: Sequence[int], spark: SparkResource, spark_above: int) -> Mapping[int, Verdict]:
    """By place in the suite. What cannot be evaluated is a failure with its error."""
    made, wrong = [], {}
    for place in places:
        one = suite.checks[place]
        try:
            made.append((place, one.maker(place)()))
        except Exception as error:  # noqa: BLE001  # whatever Great Expectations finds wrong with what a user wrote
            wrong[place] = Verdict(one.type, False, 0, (), f"{type(error).__name__}: {error}"[:500])
    expected = [lambda found=found: found for _, found in made]
    columns = [column.name for column in look.target.schema.shown]
    if look.bytes > spark_above:
        verdicts = validate_spark(spark_rows([look], columns, spark).drop("_user"), *expected)
    else:
        declared = rows_schema(look.target.schema)
        rows = look.table.scan().select(columns).cast(pa.schema([declared.field(name) for name in columns]))
        verdicts = validate_pandas(rows, *expected)
    by_place = {verdict.place: verdict for verdict in verdicts if verdict.place is not None}
    missing = Verdict("", False, 0, (), "Great Expectations gave no result for it")
    return {**{place: by_place.get(place, missing) for place, _ in made}, **wrong}


def _why(verdict: Verdict) -> str:
    """Without values of rows: it is kept."""
    if verdict.error:
        return f"it could not be evaluated: {verdict.error}"
    return f"{verdict.unexpected:,} rows violate it" if verdict.unexpected else "it is violated"


def _keep(lake: Lakehouse, table: Table, check: str, looks: Sequence[Look], verdicts: Sequence[Verdict]) -> None:
    lake.warehouse.failed_checks.record(
        table.id,
        [
            Checked(
                look.target.scope.user,
                check,
                look.table.version,
                verdict.passed,
                ConstraintViolation.code,
                "" if verdict.passed or verdict.error else _why(verdict),
            )
            for look, verdict in zip(looks, verdicts, strict=True)
        ],
    )


def _lift(lake: Lakehouse, table: Table, suite: Suite, looks: Sequence[Look]) -> None:
    """Failures of expectations that the suite has no more."""
    names = {one.name for one in suite.checks}
    standing = {one.check for found in lake.warehouse.failed_checks.of(table.id).values() for one in found}
    gone = [name for name in standing if name.startswith(EXPECTATION) and name not in names]
    if gone:
        lake.warehouse.failed_checks.record(
            table.id, [Checked(look.target.scope.user, name, LATEST, passed=True) for look in looks for name in gone]
        )


def _result(
    key: dg.AssetKey, check: str, turn: Turn, looks: Sequence[Look], verdicts: Sequence[Verdict], left: Sequence[str]
) -> dg.AssetCheckResult:
    failed = [(look.user, verdict) for look, verdict in zip(looks, verdicts, strict=True) if not verdict.passed]
    named = [Failed(user, _shown(verdict)) for user, verdict in failed]
    counted = f"{len(looks):,} of {turn.total:,} scopes"
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=check,
        passed=not failed and not left,
        description=f"{counted} checked, {said(named, left)}",
        metadata={
            "checked": dg.MetadataValue.text(counted),
            "scopes": dg.MetadataValue.int(len(looks)),
            "scopes/failed": dg.MetadataValue.int(len(failed)),
            "scopes/failed_before": dg.MetadataValue.int(len(left)),
            "unexpected": dg.MetadataValue.int(sum(verdict.unexpected for _, verdict in failed)),
            **scopes_shown(named, left),
        },
    )


def _shown(verdict: Verdict) -> str:
    examples = f", such as {', '.join(verdict.examples[:3])}" if verdict.examples else ""
    return _why(verdict) + examples
