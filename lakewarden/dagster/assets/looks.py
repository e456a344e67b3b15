"""Reads some scopes' tables for the checks with deltalake's own reader, here or on Spark, and judges keys and columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewarden.base.clock import to_millis
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.model import Table, TableSchema
from lakewarden.catalog.state.failed_checks import CheckResult
from lakewarden.catalog.target import ScopeTarget
from lakewarden.client import Lakehouse
from lakewarden.dagster.spark_session import SparkResource
from lakewarden.delta.parquet.schema import LiveColumn, delta_schema, live_columns, rows_schema
from lakewarden.delta.reading.rows import scanned_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import LakewardenError, Terminal
from lakewarden.maintenance.plans.rounds import RoundPlace, next_behind, note_reached, reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
class FailedScope:
    """A scope that failed a check, and why."""

    user: str
    why: str


@dataclass(frozen=True)
class CheckOutcome:
    """What one check found in some scopes; `unexpected` counts the rows, columns or scopes that are wrong."""

    failed: Sequence[FailedScope]
    unexpected: int
    away: Sequence[FailedScope] = ()
    """Scopes that could not be looked at, for now: they are not broken."""
    checked: Sequence[CheckResult] | None = None
    """What is to be kept; None: whether each scope failed."""


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


def judge_keys(looks: Sequence[ScopeUnderCheck], spark: SparkResource, spark_above: int) -> CheckOutcome:
    """No two rows of a scope have one key. Spark counts those of a scope of more than `spark_above` bytes, this process those of
    the others, without Lakewarden's own readers.
    """
    failed, repeats = list[FailedScope](), 0
    for look in looks:
        try:
            found = _repeats_on_spark(look, spark) if look.bytes > spark_above else _repeats(look)
        except Terminal as error:  # fails this scope, and keeps no other from its check
            failed.append(FailedScope(look.user, f"its rows cannot be read: {error}"))
            continue
        if found:
            failed.append(FailedScope(look.user, "two rows have one key"))
            repeats += found
    return CheckOutcome(failed, repeats)


def _repeats(look: ScopeUnderCheck) -> int:
    """The number of rows that share their key with another one."""
    keys = list(look.target.schema.primary_key)
    counts = rows_of(look, keys).group_by(keys).aggregate([([], "count_all")]).column("count_all").to_numpy()
    return int(counts[counts > 1].sum())


def _repeats_on_spark(look: ScopeUnderCheck, spark: SparkResource) -> int:
    keys = look.target.schema.primary_key
    names = [f"key_{number}" for number in range(len(keys))]  # Spark would read a dot in a name as a field
    found = spark_rows(look, keys, spark).toDF(*names).groupBy(*names).count().where("count > 1")
    return int(found.agg({"count": "sum"}).collect()[0][0] or 0)


def rows_of(look: ScopeUnderCheck, columns: Sequence[str]) -> pa.Table:
    """The rows, as the newest schema has them. Raises as `scanned_rows`."""
    return scanned_rows(look.table, look.target.schemas, columns)


def spark_rows(look: ScopeUnderCheck, columns: Sequence[str], spark: SparkResource) -> DataFrame:
    """The rows of a scope, read by one task with the connection of the scope's storage, as this process would, without a JAR."""
    from pyspark.sql.pandas.types import from_arrow_schema  # only large scopes need Spark

    declared = rows_schema(look.target.schema)
    schema = pa.schema([declared.field(name) for name in columns])
    one = spark.spark_session.range(0, 1, 1, 1)
    rows: DataFrame = one.mapInArrow(_reader(look, tuple(columns), schema), from_arrow_schema(schema))
    return rows


def _reader(
    look: ScopeUnderCheck, columns: tuple[str, ...], schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task's function. It names nothing of this module: executors have the library, not the code location."""
    location, version, schemas = look.target.location, look.table.version, look.target.schemas

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            table = ScopeTable.open(location, version)
            assert table is not None, "a missing version raises"
            yield from scanned_rows(table, schemas, columns).cast(schema).to_batches()

    return read


def judge_columns(looks: Sequence[ScopeUnderCheck]) -> CheckOutcome:
    """Every column is as declared in order, type and nullability."""
    differing = [(look.user, pairs) for look in looks if (pairs := _differing(look))]
    failed = [FailedScope(user, "; ".join(f"{have} instead of {want}" for want, have in pairs)) for user, pairs in differing]
    return CheckOutcome(failed, sum(len(pairs) for _, pairs in differing))


def _differing(look: ScopeUnderCheck) -> list[tuple[str, str]]:
    """The declared and the actual columns where they differ. Accepts a table that was last flushed under an earlier schema."""
    found = [_text(column) for column in look.table.columns]
    schemas = [_declared(schema) for schema in look.target.schemas]
    pairs = zip_longest(found if found in schemas else schemas[-1], found, fillvalue="(none)")
    return [(want, have) for want, have in pairs if want != have]


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
