"""Reads some scopes' tables for the checks with deltalake's own reader, here or on Spark, and evaluates expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.connection import Location
from lakewarden.dagster.assets.expectations import Verdict, equal_pair, unique_together, validate_pandas, validate_spark
from lakewarden.dagster.resources.spark import SparkResource
from lakewarden.delta.parquet.schema import LiveColumn, delta_schema, live_columns, rows_schema
from lakewarden.delta.table import ScopeTable
from lakewarden.lakehouse import Lakehouse
from lakewarden.scope import Scope
from lakewarden.target import ScopeTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_USER = "_user"


@dataclass(frozen=True)
class Look:
    """One scope under the checks."""

    target: ScopeTarget
    table: ScopeTable

    @property
    def user(self) -> str:
        return self.target.scope.user or ""


def look_at(lake: Lakehouse, scopes: Iterable[Scope]) -> list[Look]:
    """The scopes that have a table, at its newest version."""
    catalog = lake.warehouse.catalog.read()
    targets = [lake.warehouse.target(catalog, scope) for scope in scopes]
    return [Look(target, table) for target in targets if (table := ScopeTable.open(target.location))]


def judge_keys(looks: Sequence[Look], spark: SparkResource, spark_above: int) -> list[Verdict]:
    """No two rows of a scope have one key: a single batch for all scopes, with the user as part of the key.

    Above `spark_above` bytes Spark reads them; below, this process does, without Lakewarden's own readers.
    """
    if not looks:
        return []
    keys = list(looks[0].target.schema.primary_key)
    expected = unique_together([_USER, *keys])
    if sum(file.size for look in looks for file in look.table.files()) > spark_above:
        return validate_spark(_spark_rows(looks, keys, spark), expected)
    return validate_pandas(pa.concat_tables([_rows(look, keys) for look in looks]), expected)


def _rows(look: Look, columns: Sequence[str]) -> pa.Table:
    rows = look.table.scan().select(columns)
    return rows.append_column(_USER, pa.repeat(pa.scalar(look.user), rows.num_rows))


def _spark_rows(looks: Sequence[Look], columns: Sequence[str], spark: SparkResource) -> DataFrame:
    """One task for each scope. It reads with the connection of the scope's storage, as this process would, without a JAR."""
    from pyspark.sql.pandas.types import from_arrow_schema  # only large scopes need Spark

    declared = rows_schema(looks[0].target.schema)
    schema = pa.schema([*(declared.field(name) for name in columns), pa.field(_USER, pa.string())])
    reader = _reader([(look.target.location, look.table.version, look.user) for look in looks], tuple(columns), schema)
    pieces = spark.spark_session.range(0, len(looks), 1, len(looks))
    rows: DataFrame = pieces.mapInArrow(reader, from_arrow_schema(schema))
    return rows


def _reader(
    places: Sequence[tuple[Location, int, str]], columns: tuple[str, ...], schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The tasks' function. It names nothing of this module: executors have the library, not the code location."""
    user_column = _USER

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                location, version, user = places[row["id"]]
                table = ScopeTable.open(location, version)
                assert table is not None, "a missing version raises"
                rows = table.scan().select(columns)
                users = pa.repeat(pa.scalar(user), rows.num_rows)
                yield from rows.append_column(user_column, users).cast(schema).to_batches()

    return read


def judge_columns(looks: Sequence[Look]) -> list[Verdict]:
    """Every column is as declared in order, type and nullability: one row a column, with the declared and the actual one."""
    rows = [row for look in looks for row in _columns(look)]
    return validate_pandas(pa.Table.from_pylist(rows), equal_pair("declared", "found")) if rows else []


def _columns(look: Look) -> list[dict[str, str]]:
    """Accepts a table that was last flushed under an earlier schema version."""
    found = [_text(column) for column in look.table.columns]
    schemas = [_declared(schema) for schema in look.target.schemas]
    declared = found if found in schemas else schemas[-1]
    pairs = zip_longest(declared, found, fillvalue="(none)")
    return [{"user": look.user, "declared": want, "found": have} for want, have in pairs]


def _declared(schema: TableSchema) -> list[str]:
    return [_text(column) for column in live_columns(delta_schema(schema).to_json())]


def _text(column: LiveColumn) -> str:
    return f"{column.name} {column.type}" + ("" if column.nullable else " not null")
