"""Asset checks of every table: one row per key, columns as declared, log and table agree.

A table may have a hundred thousand scopes, so a run looks at some of them: those that Dagster saw touched last. Every
result says which. `lakewarden check` looks at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa
from pydantic import Field

from assets.expectations import Verdict, equal_pair, unique_together, validate_pandas, validate_spark
from assets.metadata import table
from assets.tables import asset_key
from lakewarden.catalog.model import Catalog, Table, TableSchema
from lakewarden.delta.schema import LiveColumn, delta_schema, live_columns
from lakewarden.delta.table import ScopeTable
from lakewarden.lakehouse import Lakehouse
from lakewarden.log.view import read_view
from lakewarden.operations.check import CheckTask, check_scope
from lakewarden.report import ScopeTarget
from lakewarden.scope import Scope
from resources.spark import SparkResource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ONE_ROW_PER_KEY = "one_row_per_key"
COLUMNS_AS_DECLARED = "columns_as_declared"
LOG_AND_TABLE_AGREE = "log_and_table_agree"

_DESCRIPTIONS = {
    ONE_ROW_PER_KEY: "No two rows of a scope's Delta table have the same primary key.",
    COLUMNS_AS_DECLARED: "The Delta table's columns, in order and with their types, are those of the catalog.",
    LOG_AND_TABLE_AGREE: "No row and no watermark of the Delta table lies beyond what the write log gave out.",
}

_OF_THE_LOG = ("readable", LOG_AND_TABLE_AGREE)

_USER = "_user"

_SHOWN = 100


class CheckConfig(dg.Config):
    """How much a run of the checks looks at."""

    users: list[str] = Field([], description="Exactly these users' scopes; none means those touched last.")
    scopes: int = Field(50, description="Scopes of a table that are looked at, the one touched last first.")
    spark_above: int = Field(
        256 << 20, description="Bytes of all of these scopes above which Spark reads them, in place of this process."
    )


@dataclass(frozen=True)
class Looked:
    """One scope under the checks."""

    target: ScopeTarget
    table: ScopeTable

    @property
    def user(self) -> str:
        return self.target.scope.user or ""


def build_table_checks(catalog: Catalog) -> list[dg.AssetChecksDefinition]:
    return [_table_checks(declared) for declared in catalog.tables.values()]


def _table_checks(declared: Table) -> dg.AssetChecksDefinition:
    key = asset_key(declared.name)
    name = str(declared.name)

    @dg.multi_asset_check(
        name=f"check_{declared.name.namespace}__{declared.name.name}",
        specs=[dg.AssetCheckSpec(check, asset=key, description=text) for check, text in _DESCRIPTIONS.items()],
        pool="spark",
    )
    def check(
        context: dg.AssetCheckExecutionContext, config: CheckConfig, lake: dg.ResourceParam[Lakehouse], spark: SparkResource
    ) -> Iterator[dg.AssetCheckResult]:
        current = lake.table(name).table
        looked = _look(lake, _chosen(context.instance, lake, current, config))
        yield _result(key, ONE_ROW_PER_KEY, looked, _keys_verdicts(looked, current, config, spark))
        yield _result(key, COLUMNS_AS_DECLARED, looked, _column_verdicts(looked))
        yield _agreement(key, looked, lake, current)

    return check


def _chosen(instance: dg.DagsterInstance, lake: Lakehouse, declared: Table, config: CheckConfig) -> list[Scope]:
    """The scopes to look at: the named ones, else those of the newest events, else the first of the registry."""
    if declared.type == "SHARED":
        return [Scope(declared.name)]
    if config.users:
        return [Scope(declared.name, user) for user in config.users]
    newest = instance.fetch_materializations(asset_key(declared.name), limit=config.scopes).records
    users = list(dict.fromkeys(user for record in newest if (user := record.partition_key)))
    more = sorted(lake.warehouse.registry.users(declared.id).difference(users))
    return [Scope(declared.name, user) for user in [*users, *more][: config.scopes]]


def _look(lake: Lakehouse, scopes: Iterable[Scope]) -> list[Looked]:
    catalog = lake.warehouse.catalog.read()
    targets = [lake.warehouse.target(catalog, scope) for scope in scopes]
    return [Looked(target, table) for target in targets if (table := ScopeTable.open(target.uri))]


def _keys_verdicts(looked: Sequence[Looked], declared: Table, config: CheckConfig, spark: SparkResource) -> list[Verdict]:
    """One batch for all scopes, with the user as part of the key."""
    if not looked:
        return []
    columns = [_USER, *declared.schema.primary_key]
    size = sum(file.size for one in looked for file in one.table.files())
    if size <= config.spark_above:
        rows = pa.concat_tables([_with_user(one.table.scan().select(columns[1:]), one.user) for one in looked])
        return validate_pandas(rows, unique_together(columns))
    return validate_spark(_spark_rows(looked, columns[1:], spark), unique_together(columns))


def _with_user(rows: pa.Table, user: str) -> pa.Table:
    return rows.append_column(_USER, pa.repeat(pa.scalar(user), rows.num_rows))


def _spark_rows(looked: Sequence[Looked], columns: Sequence[str], spark: SparkResource) -> DataFrame:
    from pyspark.sql import DataFrame  # only large scopes need Spark
    from pyspark.sql.functions import lit

    read = spark.spark_session.read.format("delta")
    frames = [read.load(_for_spark(one.target.uri)).select(*columns).withColumn(_USER, lit(one.user)) for one in looked]
    rows: DataFrame = reduce(DataFrame.unionByName, frames)
    return rows


def _for_spark(uri: str) -> str:
    """Hadoop's name of the scheme."""
    return uri.replace("s3://", "s3a://", 1)


def _column_verdicts(looked: Sequence[Looked]) -> list[Verdict]:
    """One row a column: what was declared beside what is there. Of an earlier schema version is as declared, too."""
    rows = [row for one in looked for row in _columns_of(one)]
    return validate_pandas(pa.Table.from_pylist(rows), equal_pair("declared", "found")) if rows else []


def _columns_of(one: Looked) -> list[dict[str, str]]:
    found = [_column_text(column) for column in one.table.columns]
    schemas = [[_column_text(column) for column in declared_columns(schema)] for schema in one.target.schemas]
    declared = found if found in schemas else schemas[-1]
    pairs = zip_longest(declared, found, fillvalue="(none)")
    return [{"user": one.user, "declared": want, "found": have} for want, have in pairs]


def declared_columns(schema: TableSchema) -> Sequence[LiveColumn]:
    return live_columns(delta_schema(schema).to_json())


def _column_text(column: LiveColumn) -> str:
    return f"{column.name} {column.type}" + ("" if column.nullable else " not null")


def _result(key: dg.AssetKey, check: str, looked: Sequence[Looked], verdicts: Sequence[Verdict]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=check,
        passed=all(verdict.passed for verdict in verdicts),
        description="; ".join(verdict.error for verdict in verdicts if verdict.error) or None,
        metadata={
            **_which(looked),
            "unexpected": sum(verdict.unexpected for verdict in verdicts),
            "expectations": table(
                {
                    "expectation": verdict.expectation,
                    "passed": verdict.passed,
                    "unexpected": verdict.unexpected,
                    "example": example,
                }
                for verdict in verdicts
                for example in (verdict.examples or ("",))
            ),
        },
    )


def _agreement(key: dg.AssetKey, looked: Sequence[Looked], lake: Lakehouse, current: Table) -> dg.AssetCheckResult:
    log_end = read_view(lake.warehouse.state, current.log_id, lake.warehouse.headers).end
    findings = [one for scope in looked for one in check_scope(CheckTask(scope.target, log_end)) if one.check in _OF_THE_LOG]
    failed = [one for one in findings if not one.passed]
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=LOG_AND_TABLE_AGREE,
        passed=not failed,
        metadata={
            **_which(looked),
            "unexpected": len(failed),
            "findings": table({"scope": one.subject, "check": one.check, "message": one.message} for one in failed[:_SHOWN]),
        },
    )


def _which(looked: Sequence[Looked]) -> dict[str, dg.MetadataValue]:
    """The scopes that were looked at, so that nobody takes some for all."""
    return {
        "scopes": dg.MetadataValue.int(len(looked)),
        "looked at": table({"user": one.user, "version": one.table.version} for one in looked),
    }
