"""Asset checks of every table: one row per key, columns as declared, log and table agree.

A table may have a hundred thousand scopes, so a run checks some of them: those with the newest events in Dagster. Every
result names them. `lakewarden check` checks all.

No `from __future__ import annotations` where Dagster reads a signature: it reads the config class from the annotation.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
from pydantic import Field

from lakewarden.catalog.model import Catalog, Table
from lakewarden.dagster.assets.expectations import Verdict
from lakewarden.dagster.assets.looks import Look, judge_columns, judge_keys, look_at
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.assets.tables import asset_key
from lakewarden.dagster.resources.spark import SparkResource
from lakewarden.lakehouse import Lakehouse
from lakewarden.operations.check import CheckTask, check_scope
from lakewarden.scope import Scope
from lakewarden.warehouse import cold_tables

ONE_ROW_PER_KEY = "one_row_per_key"
COLUMNS_AS_DECLARED = "columns_as_declared"
LOG_AND_TABLE_AGREE = "log_and_table_agree"

_DESCRIPTIONS = {
    ONE_ROW_PER_KEY: "No two rows of a scope's Delta table have the same primary key.",
    COLUMNS_AS_DECLARED: "The Delta table's columns, in order and with their types, are those of the catalog.",
    LOG_AND_TABLE_AGREE: "No row and no watermark of the Delta table is newer than the write log's last position.",
}

_OF_THE_LOG = ("readable", LOG_AND_TABLE_AGREE)

_SHOWN = 100


class CheckConfig(dg.Config):
    """How much one run checks."""

    users: list[str] = Field([], description="Exactly these users' scopes; empty means those with the newest events.")
    scopes: int = Field(50, description="The number of scopes to check in a table, newest events first.")
    spark_above: int = Field(256 << 20, description="Bytes of these scopes above which Spark reads them instead of this process.")


def build_table_checks(catalog: Catalog) -> list[dg.AssetChecksDefinition]:
    """The three checks of each table, one step for each table."""
    return [_table_checks(table) for table in cold_tables(catalog)]


def _table_checks(table: Table) -> dg.AssetChecksDefinition:
    name = table.name
    key = asset_key(name)

    @dg.multi_asset_check(
        name=f"check_{name.namespace}__{name.name}",
        specs=[dg.AssetCheckSpec(check, asset=key, description=text) for check, text in _DESCRIPTIONS.items()],
        pool="checks",  # runs of single checks carry no tags of a job, so their limit is a pool's
    )
    def check(
        context: dg.AssetCheckExecutionContext, config: CheckConfig, lake: dg.ResourceParam[Lakehouse], spark: SparkResource
    ) -> Iterator[dg.AssetCheckResult]:
        current = lake.table(str(name)).table
        looks = look_at(lake, _chosen(context.instance, lake, current, config))
        yield _result(key, ONE_ROW_PER_KEY, looks, judge_keys(looks, spark, config.spark_above))
        yield _result(key, COLUMNS_AS_DECLARED, looks, judge_columns(looks))
        yield _agreement(key, looks, lake, current)

    return check


def _chosen(instance: dg.DagsterInstance, lake: Lakehouse, table: Table, config: CheckConfig) -> list[Scope]:
    """The scopes to check: the named ones, else those of the newest events, else the first of the registry."""
    if table.type == "SHARED":
        return [Scope(table.name)]
    if config.users:
        return [Scope(table.name, user) for user in config.users]
    newest = instance.fetch_materializations(asset_key(table.name), limit=config.scopes).records
    users = list(dict.fromkeys(user for record in newest if (user := record.partition_key)))
    more = sorted(lake.warehouse.registry.users(table.id).difference(users))
    return [Scope(table.name, user) for user in [*users, *more][: config.scopes]]


def _result(key: dg.AssetKey, check: str, looks: Sequence[Look], verdicts: Sequence[Verdict]) -> dg.AssetCheckResult:
    broken = "; ".join(verdict.error for verdict in verdicts if verdict.error)
    found = table_value(
        {"expectation": verdict.expectation, "passed": verdict.passed, "unexpected": verdict.unexpected, "example": example}
        for verdict in verdicts
        for example in (verdict.examples or ("",))
    )
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=check,
        passed=all(verdict.passed for verdict in verdicts),
        description=broken or None,
        metadata={**_which(looks), "unexpected": sum(verdict.unexpected for verdict in verdicts), "expectations": found},
    )


def _agreement(key: dg.AssetKey, looks: Sequence[Look], lake: Lakehouse, table: Table) -> dg.AssetCheckResult:
    log_end = lake.warehouse.log(table).view().end
    findings = [
        one
        for look in looks
        for one in check_scope(CheckTask(look.target, log_end, lake.warehouse.clock()))
        if one.check in _OF_THE_LOG
    ]
    failed = [one for one in findings if not one.passed]
    shown = table_value({"scope": one.subject, "check": one.check, "message": one.message} for one in failed[:_SHOWN])
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=LOG_AND_TABLE_AGREE,
        passed=not failed,
        metadata={**_which(looks), "unexpected": len(failed), "findings": shown},
    )


def _which(looks: Sequence[Look]) -> dict[str, dg.MetadataValue]:
    """The scopes that were checked: a result may cover only a part of the table."""
    return {
        "scopes": dg.MetadataValue.int(len(looks)),
        "looked at": table_value({"user": look.user, "version": look.table.version} for look in looks),
    }
