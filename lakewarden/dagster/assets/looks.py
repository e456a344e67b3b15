"""Reads some scopes' tables for the checks with deltalake's own reader, here or on Spark, and evaluates expectations.

Scopes are read in groups: small ones together in this process, up to this many bytes, and a larger one by itself on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.clock import to_millis
from lakewarden.base.quantities import portions
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.expectations import Verdict, equal_pair, unique_together, validate_pandas, validate_spark
from lakewarden.dagster.spark_session import SparkResource
from lakewarden.delta.parquet.schema import LiveColumn, delta_schema, live_columns, rows_schema
from lakewarden.delta.reading.rows import scanned_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import LakewardenError, Terminal
from lakewarden.maintenance.plans.rounds import RoundPlace, next_behind, note_reached, reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_USER = "_user"
_REPEATS = "two rows have one key"


@dataclass(frozen=True)
class ScopeUnderCheck:
    """One scope under the checks."""

    target: ScopeTarget
    table: ScopeTable

    @property
    def user(self) -> str:
        return self.target.scope.user or ""

    def with_schemas_of(self, tables: Mapping[TableName, Table]) -> ScopeUnderCheck:
        table = tables.get(self.target.scope.table)
        if table is None or table.log_id != self.target.log_id:  # dropped meanwhile
            return self
        return replace(self, target=replace(self.target, schemas=table.schemas))

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.table.files())


@dataclass(frozen=True)
class Looks:
    """The scopes that were opened, and those that have no table or one that cannot be opened."""

    opened: Sequence[ScopeUnderCheck]
    others: Sequence[ScopeTarget]


@dataclass(frozen=True)
class Judgment:
    """What one check found: its expectations' verdicts, and the users whose scopes failed, with why."""

    verdicts: Sequence[Verdict]
    failed: Mapping[str, str]


def look_at(lake: Lakehouse, scopes: Iterable[Scope]) -> Looks:
    """The scopes, at their tables' newest versions."""
    catalog = lake.warehouse.catalog.read()
    found = [_open(lake.warehouse.target(catalog, scope)) for scope in scopes]
    # Read again behind the tables: an ALTER in between may have given them columns that the first one lacks.
    tables = lake.warehouse.catalog.read().tables
    opened = [one.with_schemas_of(tables) for one in found if isinstance(one, ScopeUnderCheck)]
    return Looks(opened, [one for one in found if not isinstance(one, ScopeUnderCheck)])


def _open(target: ScopeTarget) -> ScopeUnderCheck | ScopeTarget:
    try:
        table = ScopeTable.open(target.location)
    except LakewardenError:
        return target  # why, the check of log and table says
    return target if table is None else ScopeUnderCheck(target, table)


def judge_keys(looks: Sequence[ScopeUnderCheck], spark: SparkResource, spark_above: int) -> Judgment:
    """No two rows of a scope have one key: a batch for each group of scopes, with the user as part of the key.

    A scope of more than `spark_above` bytes is read by Spark, the others by this process, without Lakewarden's own readers.
    """
    judgments = [_judge_group(group, spark, spark_above) for group in portions(looks, lambda look: look.bytes, spark_above)]
    failed = {user: why for one in judgments for user, why in one.failed.items()}
    return Judgment([verdict for one in judgments for verdict in one.verdicts], failed)


def _judge_group(looks: Sequence[ScopeUnderCheck], spark: SparkResource, spark_above: int) -> Judgment:
    keys = list(looks[0].target.schema.primary_key)
    expected = unique_together([_USER, *keys])
    if sum(look.bytes for look in looks) > spark_above:
        verdicts = validate_spark(spark_rows(looks, keys, spark, _USER), expected)
        return Judgment(verdicts, {} if _passed(verdicts) else {look.user: _REPEATS for look in looks})
    read = {look.user: _rows_or_why(look, keys) for look in looks}
    unread = {user: found for user, found in read.items() if isinstance(found, str)}
    tables = [found for found in read.values() if not isinstance(found, str)]
    if not tables:
        return Judgment([], unread)
    rows = pa.concat_tables(tables)
    verdicts = validate_pandas(rows, expected)
    return Judgment(verdicts, unread if _passed(verdicts) else unread | dict.fromkeys(_with_repeats(rows, keys), _REPEATS))


def _passed(verdicts: Iterable[Verdict]) -> bool:
    return all(verdict.passed for verdict in verdicts)


def _with_repeats(rows: pa.Table, keys: Sequence[str]) -> frozenset[str]:
    """The users of rows that repeat a key."""
    counted = rows.group_by([_USER, *keys]).aggregate([([], "count_all")])
    return frozenset(map(str, counted.filter(pc.field("count_all") > 1)[_USER].to_pylist()))


def rows_of(look: ScopeUnderCheck, columns: Sequence[str]) -> pa.Table:
    """The rows, as the newest schema has them. Raises as `scanned_rows`."""
    return scanned_rows(look.table, look.target.schemas, columns)


def _rows_or_why(look: ScopeUnderCheck, columns: Sequence[str]) -> pa.Table | str:
    """With the user; or why they cannot be read: that fails this scope, and keeps no other from its check."""
    try:
        rows = rows_of(look, columns)
    except Terminal as error:
        return f"its rows cannot be read: {error}"
    return rows.append_column(_USER, pa.repeat(pa.scalar(look.user), rows.num_rows))


def spark_rows(
    looks: Sequence[ScopeUnderCheck], columns: Sequence[str], spark: SparkResource, user_column: str = ""
) -> DataFrame:
    """One task for each scope. It reads with the connection of the scope's storage, as this process would, without a JAR.

    Args:
        user_column: the name of a column more, of the scope's user; empty for none.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # only large scopes need Spark

    declared = rows_schema(looks[0].target.schema)
    of_user = [pa.field(user_column, pa.string())] if user_column else []
    schema = pa.schema([*(declared.field(name) for name in columns), *of_user])
    pieces = spark.spark_session.range(0, len(looks), 1, len(looks))
    rows: DataFrame = pieces.mapInArrow(_reader(looks, tuple(columns), schema, user_column), from_arrow_schema(schema))
    return rows


def _reader(
    looks: Sequence[ScopeUnderCheck], columns: tuple[str, ...], schema: pa.Schema, user_column: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The tasks' function. It names nothing of this module: executors have the library, not the code location."""
    places = [(look.target.location, look.table.version, look.target.schemas, look.user) for look in looks]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                location, version, schemas, user = places[row["id"]]
                table = ScopeTable.open(location, version)
                assert table is not None, "a missing version raises"
                rows = scanned_rows(table, schemas, columns)
                if user_column:
                    rows = rows.append_column(user_column, pa.repeat(pa.scalar(user), rows.num_rows))
                yield from rows.cast(schema).to_batches()

    return read


def judge_columns(looks: Sequence[ScopeUnderCheck]) -> Judgment:
    """Every column is as declared in order, type and nullability: one row a column, with the declared and the actual one."""
    rows = [row for look in looks for row in _columns(look)]
    if not rows:
        return Judgment([], {})
    failed = {row["user"]: "other columns" for row in rows if row["declared"] != row["found"]}
    return Judgment(validate_pandas(pa.Table.from_pylist(rows), equal_pair("declared", "found")), failed)


def _columns(look: ScopeUnderCheck) -> list[dict[str, str]]:
    """Accepts a table that was last flushed under an earlier schema version."""
    found = [_text(column) for column in look.table.columns]
    schemas = [_declared(schema) for schema in look.target.schemas]
    declared = found if found in schemas else schemas[-1]
    pairs = zip_longest(declared, found, fillvalue="(none)")
    return [{"user": look.user, "declared": want, "found": have} for want, have in pairs]


def _declared(schema: TableSchema) -> list[str]:
    return [_text(column) for column in live_columns(delta_schema(schema))]


def _text(column: LiveColumn) -> str:
    return f"{column.name} {column.type}" + ("" if column.nullable else " not null")


# Whose turn it is to be checked in a table: the scopes that failed before, then those that were checked longest ago.
@dataclass(frozen=True)
class CheckTurn:
    """The scopes that a run checks, of `total` in the table."""

    scopes: Sequence[Scope]
    total: int
    table_id: str = ""
    last: str = ""
    """The keyed hash up to which the round has come with them; empty if they were named."""

    def note(self, lake: Lakehouse) -> None:
        """Lets the next run go on behind these scopes."""
        if self.last:
            warehouse = lake.warehouse
            note_reached(warehouse.state, "check-rounds", self.table_id, RoundPlace(self.last, to_millis(warehouse.clock())))


def next_turn(lake: Lakehouse, table: Table, users: Sequence[str], most: int, lap: str = "") -> CheckTurn:
    """The scopes of these users; without any, at most so many whose turn it is."""
    if table.type == "SHARED":
        return CheckTurn([Scope(table.name)], 1)
    warehouse = lake.warehouse
    registered = {warehouse.erasures.mark(user): user for user in warehouse.registry.users(table.id)}
    if users:
        there = set(registered.values())
        return CheckTurn([Scope(table.name, user) for user in users if user in there], len(registered))
    failed = failing(lake, table, registered, most // 2 + 1)  # the others have their turn, too
    others = registered.keys() - set(failed)
    due = next_behind(reached(warehouse.state, "check-rounds", table.id + lap), others, most - len(failed))
    scopes = [Scope(table.name, registered[mark]) for mark in (*failed, *due)]
    return CheckTurn(scopes, len(registered), table.id + lap, due[-1] if due else "")


def failing(lake: Lakehouse, table: Table, registered: Collection[str], most: int) -> list[str]:
    """The keyed hashes of at most so many of these scopes, whose failure of a check stands."""
    return [mark for mark in lake.warehouse.failed_checks.of(table.id) if mark in registered][:most]
