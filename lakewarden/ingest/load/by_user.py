"""Appends the rows of many users to the log. One position is of one user where the rows are many, so these become several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.errors import LakewardenError
from lakewarden.ingest.load.checking import CheckedBlock
from lakewarden.log.position import PartlyAppended
from lakewarden.log.record import UPSERT, USER, LogBatch, log_batch
from lakewarden.log.table_log import TableLog


def append_of_many(log: TableLog, schema: TableSchema, blocks: Iterable[CheckedBlock], most: int) -> int:
    """Appends blocks of rows that name their users, in batches of at most so many rows, or of one block. Returns the rows.

    Raises:
        PartlyAppended: it failed half-way; the error names the users all of whose rows were appended.
        LakewardenError: as `TableLog.append`; nothing was written.
    """
    done, users = 0, set[str]()
    batches = _batches(schema, blocks, most)
    for batch in batches:
        theirs = _users(batch)
        try:
            log.append(batch)
        except LakewardenError as error:
            if isinstance(error, PartlyAppended):
                done, users, theirs = done + error.rows, users | error.users, theirs - error.users
            if not done:
                raise
            raise _half_way(done, users - theirs.union(*map(_users, batches)), schema, error) from error
        done, users = done + batch.rows.num_rows, users | theirs
    return done


def _half_way(rows: int, users: set[str], schema: TableSchema, error: LakewardenError) -> PartlyAppended:
    whole = f"all those of {len(users)} users ({', '.join(map(repr, sorted(users)[:5]))}{', …' if len(users) > 5 else ''})"
    again = "load the other users' rows again" if schema.append_only else "load again, which replaces rows by their keys"
    return PartlyAppended(
        f"{rows} rows were acknowledged, {whole if users else 'of no user all'}; then: {error.message}; {again}",
        rows,
        frozenset(users),
    )


def _users(batch: LogBatch) -> set[str]:
    return {str(user) for user in batch.rows.column(USER).unique().to_pylist()}


def _batches(schema: TableSchema, blocks: Iterable[CheckedBlock], most: int) -> Iterator[LogBatch]:
    held: list[pa.Table] = []
    for made in blocks:
        if not made.rows.num_rows:
            continue
        assert made.users is not None, "each row names its user"
        if held and sum(each.num_rows for each in held) + made.rows.num_rows > most:
            yield LogBatch(schema.version, pa.concat_tables(held))
            held = []
        held.append(log_batch(schema, made.rows, made.users, UPSERT).rows)
    if held:
        yield LogBatch(schema.version, pa.concat_tables(held))
