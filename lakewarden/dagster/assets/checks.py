"""Asset checks of every table: one row per key, columns as declared, log and table agree, flushed in time.

A table may have a hundred thousand scopes, so a run checks some of them: those that failed before, then those that were checked
longest ago. Every result names them, and says of how many they are. A failure is kept in the warehouse, where it blocks
vacuums of that scope. `lakewarden check` checks all.

No `from __future__ import annotations` where Dagster reads a signature: it reads the config class from the annotation.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import dagster as dg
from pydantic import Field

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.state.failed_checks import EXPECTATION, LATEST, CheckResult
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.health import FLUSHED_IN_TIME, lateness
from lakewarden.dagster.assets.health_changes import report_changes
from lakewarden.dagster.assets.looks import (
    CheckOutcome,
    CheckTurn,
    FailedScope,
    Looks,
    ScopeUnderCheck,
    judge_columns,
    judge_keys,
    look_at,
    next_turn,
)
from lakewarden.dagster.assets.metadata import Metadata, table_value
from lakewarden.dagster.lakehouse import LAKE, SPARK, WarehouseRun, lake_of, spark_of
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.spark_session import SparkResource
from lakewarden.maintenance.check.memory import BROKEN, nameless, results_of_table
from lakewarden.maintenance.check.scope import CheckedScope, Finding, check_scopes, task_of
from lakewarden.maintenance.planning.health import health
from lakewarden.tables.fanout import run_here
from lakewarden.tables.warehouse import cold_tables

ONE_ROW_PER_KEY = "one_row_per_key"
COLUMNS_AS_DECLARED = "columns_as_declared"
LOG_AND_TABLE_AGREE = "log_and_table_agree"

DESCRIPTIONS = {
    ONE_ROW_PER_KEY: "No two rows of a scope's Delta table have the same primary key.",
    COLUMNS_AS_DECLARED: "The Delta table's columns, in order and with their types, are those of the catalog.",
    LOG_AND_TABLE_AGREE: "No row and no watermark of the Delta table is newer than the write log's last position.",
}

_FLUSHED_IN_TIME = "No row waits in the write log for much longer than the interval of FLUSH_POLICY. Looked at every few minutes."

_BY_THEMSELVES = frozenset({ONE_ROW_PER_KEY, COLUMNS_AS_DECLARED})
"""What a scope's own check finds of these counts for nothing here: they are judged by other code."""

_SHOWN = 100


class CheckConfig(dg.Config):
    """How much one run checks."""

    users: list[str] = Field([], description="Exactly these users' scopes; empty means those checked longest ago.")
    scopes: int = Field(
        50, description="The number of scopes to check in a table: those that failed, then the longest unchecked."
    )
    spark_above: int = Field(256 << 20, description="Bytes of one scope above which Spark reads it instead of this process.")


def data_checks(table: Table) -> dict[str, str]:
    """The checks of a table's data, with what each shows. Rows of a table without a key may repeat."""
    return {check: text for check, text in DESCRIPTIONS.items() if check != ONE_ROW_PER_KEY or table.schema.primary_key}


def check_step(mount: Mount, table: TableName) -> str:
    """The name of the step that checks the table, under which a run's config has its part."""
    return mount.table_named("check", table)


def build_table_checks(mount: Mount, catalog: Catalog, with_suites: Collection[TableName] = ()) -> list[dg.AssetChecksDefinition]:
    """The checks of each table, one step for each table. Each can be run by itself.

    Args:
        with_suites: the tables whose expectations have a step of their own; those that the others once had are lifted.
    """
    return [_table_checks(mount, table, table.name in with_suites) for table in cold_tables(catalog)]


def _table_checks(mount: Mount, table: Table, has_suite: bool) -> dg.AssetChecksDefinition:
    name = table.name
    key = mount.asset_key(name)

    @dg.multi_asset_check(
        name=check_step(mount, name),
        description=f"Checks some scopes of {name}: those that failed, then those checked longest ago.",
        required_resource_keys={mount.named(LAKE), mount.named(SPARK)},
        specs=[
            dg.AssetCheckSpec(check, asset=key, description=text)
            for check, text in {**data_checks(table), FLUSHED_IN_TIME: _FLUSHED_IN_TIME}.items()
        ],
        pool=mount.pools.checks,
        can_subset=True,
    )
    def check(context: dg.AssetCheckExecutionContext, config: CheckConfig) -> Iterator[dg.AssetCheckResult]:
        lake, spark = lake_of(context, mount), spark_of(context, mount)
        current = lake.table(str(name)).table
        selected = [one.name for one in context.selected_asset_check_keys]
        if FLUSHED_IN_TIME in selected:
            yield lateness(mount, *health(lake.warehouse, [name]))
        checks = [one for one in data_checks(table) if one in selected]
        found = _of_the_data(lake, current, key, checks, config, spark, has_suite)
        yield from behind_results(WarehouseRun.of(context, mount), name, found)

    return check


def behind_results(run: WarehouseRun, table: TableName, results: Iterator[dg.AssetCheckResult]) -> Iterator[dg.AssetCheckResult]:
    """The results of a table's checks, and behind the last of them what they change in the health."""
    passed = True
    for result in results:
        passed = passed and result.passed
        yield result
    report_changes(run, failed=not passed, tables=[table])


def _of_the_data(
    lake: Lakehouse,
    table: Table,
    key: dg.AssetKey,
    checks: Sequence[str],
    config: CheckConfig,
    spark: SparkResource,
    has_suite: bool,
) -> Iterator[dg.AssetCheckResult]:
    """Checks some scopes' data; the round goes on if no check was left out."""
    if not checks:
        return
    turn = next_turn(lake, table, config.users, config.scopes)
    looks = look_at(lake, turn.scopes)
    left = failed_before(lake, table, turn)
    if not has_suite:
        lift_expectations(lake, table, looks.opened)
    for check in checks:
        outcome = _outcome(check, looks, lake, table, spark, config)
        keep_results(lake, table, check, looks.opened, outcome)
        yield result_of(key, check, turn, looks.opened, outcome, left.get(check, ()))
    if len(checks) == len(data_checks(table)):
        turn.note(lake)


def failed_before(lake: Lakehouse, table: Table, turn: CheckTurn) -> Mapping[str, Sequence[str]]:
    """The users of scopes that failed each check and are not checked now: without them, a sample would hide a failure."""
    mark = lake.warehouse.erasures.mark
    checked = {mark(scope.user or "") for scope in turn.scopes}
    left = {one: found for one, found in lake.warehouse.failed_checks.of(table.id).items() if one not in checked}
    users = {mark(user): user for user in (lake.warehouse.registry.users(table.id) if left else ())}
    by_check = defaultdict[str, list[str]](list)
    for one, found in left.items():
        for check in {_shown_as(each.check) for each in found}:
            by_check[check].append(users.get(one, ""))
    return {check: sorted(failed) for check, failed in by_check.items()}


def lift_expectations(lake: Lakehouse, table: Table, looks: Sequence[ScopeUnderCheck], kept: Collection[str] = ()) -> None:
    """Lifts the failures of the scopes in expectations that the table's suite has no more."""
    standing = {one.check for found in lake.warehouse.failed_checks.of(table.id).values() for one in found}
    gone = [name for name in standing if name.startswith(EXPECTATION) and name not in kept]
    if gone:
        lake.warehouse.failed_checks.record(
            table.id, [CheckResult(look.target.scope.user, name, LATEST, passed=True) for look in looks for name in gone]
        )


def _shown_as(check: str) -> str:
    """The check of Dagster's whose result stays red for a failure: of many kinds `lakewarden check` knows, and of operations."""
    return check if check in DESCRIPTIONS or check.startswith(EXPECTATION) else LOG_AND_TABLE_AGREE


def _outcome(check: str, looks: Looks, lake: Lakehouse, table: Table, spark: SparkResource, config: CheckConfig) -> CheckOutcome:
    match check:
        case "one_row_per_key":
            return judge_keys(looks.opened, spark, config.spark_above)
        case "columns_as_declared":
            return judge_columns(looks.opened)
        case _:
            return _agreement(looks, lake, table)


def _agreement(looks: Looks, lake: Lakehouse, table: Table) -> CheckOutcome:
    """Scopes that cannot be read, or have lost their table, fail here; what `lakewarden check` keeps of them is kept."""
    end = lake.warehouse.log(table).view().end
    targets = [*(look.target for look in looks.opened), *looks.others]
    checked = check_scopes(lake.warehouse, run_here, [task_of(lake.warehouse, table, target, end) for target in targets])
    wrong = {task.target.scope.user or "": _wrong(one) for task, one in checked}
    broken = _failed({user: [each for each in found if each.code in BROKEN] for user, found in wrong.items()})
    away = _failed({user: [each for each in found if each.code not in BROKEN] for user, found in wrong.items()})
    results = [each for task, one in checked for each in results_of_table(task.target, one) if each.check not in _BY_THEMSELVES]
    return CheckOutcome(broken, len(broken), away, results)


def _wrong(one: CheckedScope) -> list[Finding]:
    return [each for each in one.findings if not each.passed and each.check not in _BY_THEMSELVES]


def _failed(wrong: Mapping[str, Sequence[Finding]]) -> list[FailedScope]:
    return [FailedScope(user, "; ".join(each.message for each in found)) for user, found in wrong.items() if found]


def keep_results(lake: Lakehouse, table: Table, check: str, looks: Sequence[ScopeUnderCheck], outcome: CheckOutcome) -> None:
    """Keeps the results in the warehouse, for its vacuums."""
    failed = {one.user: one.why for one in outcome.failed}

    def checked(look: ScopeUnderCheck) -> CheckResult:
        why = failed.get(look.user)
        return CheckResult(
            look.target.scope.user, check, look.table.version, why is None, reason=nameless(why or "", look.target)
        )

    results = outcome.checked if outcome.checked is not None else map(checked, looks)
    lake.warehouse.failed_checks.record(table.id, results)


def result_of(
    key: dg.AssetKey,
    check: str,
    turn: CheckTurn,
    looks: Sequence[ScopeUnderCheck],
    outcome: CheckOutcome,
    left: Sequence[str],
    *,
    only_warns: bool = False,
) -> dg.AssetCheckResult:
    """The result of one check; the scopes of the users in `left` failed it before and are not among these."""
    counted = f"{len(turn.scopes):,} of {turn.total:,} scopes"
    is_well = not outcome.failed and not left
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=check,
        passed=is_well and not outcome.away,
        severity=dg.AssetCheckSeverity.WARN if only_warns or (is_well and outcome.away) else dg.AssetCheckSeverity.ERROR,
        description=f"{counted} checked, {_said(outcome, left)}",
        metadata={
            "checked": counted,
            "scopes": len(turn.scopes),
            "scopes/failed": len(outcome.failed),
            "scopes/failed_before": len(left),
            **_scopes_shown(outcome, left),
            "unexpected": outcome.unexpected,
            "looked at": table_value({"user": look.user, "version": look.table.version} for look in looks[:_SHOWN]),
        },
    )


def _scopes_shown(outcome: CheckOutcome, left: Sequence[str]) -> Metadata:
    """The scopes that failed now, those of the users in `left`, whose failures stand, and those that were away; if any."""
    standing = [FailedScope(user, "failed before, and not checked now") for user in left]
    shown = {"failed scopes": [*outcome.failed, *standing], "not looked at": outcome.away}
    return {
        name: table_value({"user": one.user, "why": one.why} for one in found[:_SHOWN]) for name, found in shown.items() if found
    }


def _said(outcome: CheckOutcome, left: Sequence[str]) -> str:
    """The outcome in a few words; vacuums of the scopes that failed are blocked from now on."""
    away = f"; not looked at: {len(outcome.away):,}: {_first([one.user for one in outcome.away])}" if outcome.away else ""
    if not outcome.failed and not left:
        return f"all passed{away}"
    failed = outcome.failed
    now = f"{len(failed):,} failed: {_first([one.user for one in failed])}." if failed else "all passed."
    before = f" Failed before, and not checked now: {len(left):,}: {_first(left)}." if left else ""
    return f"{now}{before} They are not vacuumed until a check passes.{away}"


def _first(users: Sequence[str]) -> str:
    return ", ".join(user or "the table" for user in users[:3]) + (", …" if len(users) > 3 else "")
