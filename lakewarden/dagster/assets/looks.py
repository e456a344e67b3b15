"""Reads some scopes' tables for the checks with deltalake's own reader, here or on Spark, and evaluates expectations.

Scopes are read in groups: small ones together in this process, up to so many bytes, and a larger one by itself on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import TableSchema
from lakewarden.connection import Location
from lakewarden.dagster.assets.expectations import Verdict, equal_pair, unique_together, validate_pandas, validate_spark
from lakewarden.dagster.resources.spark import SparkResource
from lakewarden.delta.parquet.schema import LiveColumn, delta_schema, live_columns, rows_schema
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import LakewardenError
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

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.table.files())


@dataclass(frozen=True)
class Looks:
    """The scopes that were opened, and those that have no table or one that cannot be opened."""

    opened: Sequence[Look]
    others: Sequence[ScopeTarget]


@dataclass(frozen=True)
class Judgment:
    """What one check found: its expectations' verdicts, and the users whose scopes failed."""

    verdicts: Sequence[Verdict]
    failed: frozenset[str]


def look_at(lake: Lakehouse, scopes: Iterable[Scope]) -> Looks:
    """The scopes, at their tables' newest versions."""
    catalog = lake.warehouse.catalog.read()
    found = [_open(lake.warehouse.target(catalog, scope)) for scope in scopes]
    opened = [one for one in found if isinstance(one, Look)]
    return Looks(opened, [one for one in found if not isinstance(one, Look)])


def _open(target: ScopeTarget) -> Look | ScopeTarget:
    try:
        table = ScopeTable.open(target.location)
    except LakewardenError:
        return target  # why, the check of log and table says
    return target if table is None else Look(target, table)


def judge_keys(looks: Sequence[Look], spark: SparkResource, spark_above: int) -> Judgment:
    """No two rows of a scope have one key: a batch for each group of scopes, with the user as part of the key.

    A scope of more than `spark_above` bytes is read by Spark, the others by this process, without Lakewarden's own readers.
    """
    judgments = [_judge_group(group, spark, spark_above) for group in _groups(looks, spark_above)]
    return Judgment(
        [verdict for one in judgments for verdict in one.verdicts], frozenset[str]().union(*(one.failed for one in judgments))
    )


def _groups(looks: Sequence[Look], most: int) -> Iterator[Sequence[Look]]:
    """Groups of at most so many bytes; a scope that has more is a group of its own."""
    group: list[Look] = []
    size = 0
    for look in looks:
        if group and size + look.bytes > most:
            yield group
            group, size = [], 0
        group.append(look)
        size += look.bytes
    if group:
        yield group


def _judge_group(looks: Sequence[Look], spark: SparkResource, spark_above: int) -> Judgment:
    keys = list(looks[0].target.schema.primary_key)
    expected = unique_together([_USER, *keys])
    if sum(look.bytes for look in looks) > spark_above:
        verdicts = validate_spark(spark_rows(looks, keys, spark), expected)
        return Judgment(verdicts, frozenset() if _passed(verdicts) else frozenset(look.user for look in looks))
    rows = pa.concat_tables([_rows(look, keys) for look in looks])
    verdicts = validate_pandas(rows, expected)
    return Judgment(verdicts, frozenset() if _passed(verdicts) else _with_repeats(rows, keys))


def _passed(verdicts: Iterable[Verdict]) -> bool:
    return all(verdict.passed for verdict in verdicts)


def _with_repeats(rows: pa.Table, keys: Sequence[str]) -> frozenset[str]:
    """The users of rows that repeat a key."""
    counted = rows.group_by([_USER, *keys]).aggregate([([], "count_all")])
    return frozenset(map(str, counted.filter(pc.field("count_all") > 1)[_USER].to_pylist()))


def _rows(look: Look, columns: Sequence[str]) -> pa.Table:
    """Cast to what is declared: deltalake reads texts as views, which Arrow does not group by."""
    declared = rows_schema(look.target.schema)
    rows = look.table.scan().select(columns).cast(pa.schema([declared.field(name) for name in columns]))
    return rows.append_column(_USER, pa.repeat(pa.scalar(look.user), rows.num_rows))


def spark_rows(looks: Sequence[Look], columns: Sequence[str], spark: SparkResource) -> DataFrame:
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


def judge_columns(looks: Sequence[Look]) -> Judgment:
    """Every column is as declared in order, type and nullability: one row a column, with the declared and the actual one."""
    rows = [row for look in looks for row in _columns(look)]
    if not rows:
        return Judgment([], frozenset())
    failed = frozenset(row["user"] for row in rows if row["declared"] != row["found"])
    return Judgment(validate_pandas(pa.Table.from_pylist(rows), equal_pair("declared", "found")), failed)


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
