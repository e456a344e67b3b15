"""Scopes, schemas and hot rows for the tests of this room."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import Compression, SchemaColumn, TableSchema
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.apply import ColdApply
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.commit_log.kept_versions import KEPT_VERSIONS, verified
from lakewarden.delta.parquet.stats import ColumnFacts, of_rows, stats_text
from lakewarden.delta.reading.rows import read_rows
from lakewarden.delta.table import ScopeTable
from lakewarden.log.record import OP
from lakewarden.storage.steps import alone
from tests.fixtures.bucket import AnyPath

APP = "lakewarden/w/p"
Row = dict[str, Any]


def schema(
    *columns: str, key: Sequence[str] = ("id",), version: int = 1, first_id: int = 1, by: Sequence[str] = ()
) -> TableSchema:
    """`schema("id BIGINT NOT NULL", "name TEXT")`; `by` names its partition columns."""
    made = tuple(column(first_id + index, text) for index, text in enumerate(columns))
    return TableSchema(version, made, tuple(key), partition_by=tuple(by))


def column(id_: int, text: str) -> SchemaColumn:
    name, _, rest = text.partition(" ")
    type_, not_null, _ = rest.partition(" NOT NULL")
    return SchemaColumn(id_, name, ColumnType.parse(type_), not not_null, None)


PEOPLE = schema("id BIGINT NOT NULL", "name TEXT")


def target(
    path: AnyPath,
    *schemas: TableSchema,
    user: str | None = "u_1",
    compression: Compression = "snappy",
    target_file_size: int = 128 << 20,
) -> ScopeTarget:
    return ScopeTarget(
        scope=Scope(TableName("chat", "people"), user),
        location=Location(str(path)),
        schemas=schemas or (PEOPLE,),
        app_id=APP,
        compression=compression,
        target_file_size=target_file_size,
        retention_hours=168,
    )


def stats_of(rows: pa.Table) -> str:
    """A file's statistics, computed from its rows alone."""
    columns = zip(rows.schema, rows.columns, strict=True)
    facts = (ColumnFacts(field.name, field.type, of_rows(column), column.null_count) for field, column in columns)
    return stats_text(rows.num_rows, facts)


def ticking() -> Callable[[], datetime]:
    """A clock that moves on a second at each look."""
    seconds = itertools.count()
    return lambda: datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=next(seconds))


def hot(schema_: TableSchema, rows: Iterable[Row], first_seq: int = 0, deletes: Iterable[Row] = ()) -> pa.Table:
    """Upserts, then deletes, as the log hands them over: the schema's columns, `_seq` ascending, `_op`."""
    return hot_of(schema_, [*((row, False) for row in rows), *((row, True) for row in deletes)], first_seq)


def hot_of(schema_: TableSchema, steps: Sequence[tuple[Row, bool]], first_seq: int = 0) -> pa.Table:
    """Rows in this order, each with whether it is a delete."""
    arrays = [pa.array([row.get(c.name) for row, _ in steps], c.type.arrow) for c in schema_.columns]
    seqs = pa.array(range(first_seq, first_seq + len(steps)), pa.int64())
    ops = pa.array([int(delete) for _, delete in steps], pa.int8())
    return pa.table([*arrays, seqs, ops], names=[*schema_.names, "_seq", OP])


def people(*ids: int, name: str = "n") -> list[Row]:
    return [{"id": id_, "name": f"{name}{id_}"} for id_ in ids]


def at(moment: datetime = datetime(2024, 5, 1, tzinfo=UTC), held: timedelta = timedelta()) -> dict[str, Any]:
    """The moments of a commit that was planned so long before it."""
    return {"since": moment - held, "now": moment}


def by(job_id: str) -> Committer:
    clock = ticking()
    return Committer(job_id, clock(), clock)


def opened(scope: ScopeTarget, *, reach: Reach = no_faults, large_bytes: int | None = None, job_id: str = "FL-1") -> ColdApply:
    return ColdApply(scope, by(job_id), new_id=random_id, reach=reach, large_bytes=large_bytes)


def flush(
    scope: ScopeTarget,
    rows: Iterable[Row] = (),
    *,
    first_seq: int = 0,
    deletes: Iterable[Row] = (),
    end: int | None = None,
    reach: Reach = no_faults,
) -> ColdApply:
    batch = hot(scope.schema, rows, first_seq, deletes)
    cold = opened(scope, reach=reach)
    alone(cold.commit(batch, first_seq + batch.num_rows - 1 if end is None else end))
    return cold


def table_of(scope: ScopeTarget, version: int | None = None) -> ScopeTable:
    table = ScopeTable.open(scope.location, version)
    assert table is not None
    return table


def rows_of(scope: ScopeTarget, version: int | None = None) -> list[Row]:
    """Sorted by the key, without `_seq`."""
    rows = read_rows(table_of(scope, version), scope.schemas).drop_columns(["_seq"]).to_pylist()
    return sorted(rows, key=lambda row: tuple(row[name] for name in scope.schema.primary_key))


def paths(scope: ScopeTarget, version: int | None = None) -> set[str]:
    return {file.path for file in table_of(scope, version).files()}


def remember(scope: ScopeTarget, manifest: bytes) -> None:
    """Makes the version that a manifest keeps the one that this process remembers of the scope."""
    KEPT_VERSIONS.forget(scope.manifest_key)
    if (kept := verified(manifest, scope.manifest_key, scope.app_id)) is not None:
        KEPT_VERSIONS.put(scope.manifest_key, kept)
