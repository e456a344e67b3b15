"""Writes straight into a table's Delta table, past the write log (tables/direct): SHARED tables only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Table
from lakewarden.delta.commit_log.stamp import SILENT
from lakewarden.delta.reading.bounds import Bound
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.log.once import LastBatch, Resume, WriterBatch, stopped
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.effects import Keep, Replace
from lakewarden.tables.direct.identities import last_write, transaction_app
from lakewarden.tables.direct.revise import Revise, Spread
from lakewarden.tables.direct.run import DirectRun, resume
from lakewarden.tables.direct.value import Batches, Decide, DirectResult, Given, TaskFiles, Within
from lakewarden.tables.keys.seen_keys import SeenKeys
from lakewarden.tables.predicate import check_predicate, partitions_within
from lakewarden.tables.warehouse import Warehouse

FlushPending = Callable[[Warehouse, TableName], None]
"""Flushes a SHARED table's pending rows; raises Conflict if some stay."""


@dataclass(frozen=True)
class DirectWrites:
    """The direct writes of one table. Each is one Delta commit, durable when the call returns.

    Rows that are pending in the log stay there: the next flush puts them on top of what a direct write did.
    """

    warehouse: Warehouse
    table: Table
    flush_pending: FlushPending
    hidden: bool = False
    """Whether no other caller sees the table yet."""
    job_id: str | None = None
    """The job that writes; without it, each write is one."""
    reach: Reach = no_faults

    def append(self, given: Given, *, once: WriterBatch | None = None) -> DirectResult:
        """Adds rows to a table without a primary key.

        Args:
            given: the columns of the newest schema, checked and complete (`TableClient.completed`). Read once, as they come; or
                data files that tasks write.
            once: the write's identity: with it, what the table has already is not read and not added again, and also a write
                without rows is committed.

        Raises:
            Unsupported: the table has a primary key, or is not SHARED.
            Conflict, NotFound, StorageUnavailable: as `DirectRun.run`.
        """
        self._check_keyless()
        return self._run(DirectWrite("WRITE", Keep(), given, {"mode": "Append"}, self._once(once)))

    def overwrite(
        self, given: Given, *, within: str = "", operation: str = "WRITE", once: WriterBatch | None = None
    ) -> DirectResult:
        """Replaces all rows, or those of some partitions. With a primary key, pending rows are flushed first.

        Of a dynamic table, subscribers hear nothing of it; and it runs once: it loses against a flush of these partitions.

        Args:
            given: as in `append`; none empties the table. Files of tasks only without a primary key.
            within: a condition on partition columns: the partitions that are replaced. All rows belong into them.
            operation: for the history: `WRITE`, or `TRUNCATE`.
            once: as in `append`.

        Raises:
            ConstraintViolation: a key is there twice, or a row is outside of `within`; nothing was changed.
            InvalidArgument: `within` is not a condition on partition columns; or the table has a primary key, of which other
                partitions may hold the same value.
            Unsupported: the table is not SHARED.
            Conflict, NotFound, StorageUnavailable: as `DirectRun.run`; or the pending rows could not be flushed.
        """
        key, partitioned = self.table.schema.primary_key, set(self.table.schema.partition_by)
        if within:
            check_predicate(self.table.schema, within)
        if within and key and not partitioned <= set(key):
            raise InvalidArgument(
                f"the partition columns of {self.table.name} are not all in its primary key, so rows of other partitions may have"
                " the same keys: overwrite the whole table, or change rows by key"
            )
        if key:
            self._flush_pending()
            if isinstance(given, TaskFiles):
                self._check_keyless()
            else:
                given = _each_key_once(given, key)
        parameters = {"mode": "Overwrite"} | ({"predicate": within} if within else {})
        silent = self.table.dynamic is not None and operation != "TRUNCATE"
        write = DirectWrite(operation, Replace(within), given, parameters | (SILENT if silent else {}), self._once(once))
        return self._run(write if self.table.dynamic is None else replace(write, again=0))

    def edit(
        self,
        decide: Decide | Spread,
        *,
        operation: str,
        predicate: str,
        bounds: Sequence[Bound] | Callable[[], Sequence[Bound]] = (),
        within: str | Within = "",
        added: Given = (),
        once: WriterBatch | None = None,
    ) -> DirectResult:
        """Changes rows, file by file: each file that `decide` changes is written again.

        Args:
            decide: takes one file's rows, with `_seq`, and returns what leaves and what comes. Called again where others
                changed the table meanwhile. A `Spread` has tasks read and write many bytes.
            operation: `UPDATE`, `DELETE` or `MERGE`, for the history.
            predicate: as text, for the history.
            bounds: files that can have no row within them are not read. A function is called once `added` was read.
            within: a condition on partition columns, or what chooses partitions; files of others are not read.
            added: rows that come in the same commit, as in `append`; `decide` does not see them. With a primary key, pending rows
                are flushed first, each key comes once, and `decide` removes the rows that have it.
            once: as in `append`.

        Raises:
            Unsupported: the table is not SHARED; or another writer left deletion vectors.
            Conflict, NotFound, StorageUnavailable: as `DirectRun.run`.
        """
        if self.table.schema.primary_key and added != ():
            self._flush_pending()
        effect = Revise.by(decide, bounds, self._partitions(within))
        return self._run(DirectWrite(operation, effect, added, {"predicate": predicate}, self._once(once)))

    def _flush_pending(self) -> None:
        """Of a table that does not appear yet, nobody can have written to the log, and no operation finds it."""
        if not self.hidden:
            self.flush_pending(self.warehouse, self.table.name)

    def last_write(self, writer: str) -> LastBatch:
        """The newest write with the identity of that writer that is in the table."""
        table = self._opened()
        return LastBatch(None) if table is None else last_write(table, transaction_app(self.table.id, writer))

    def last_once(self, writer: str) -> int | None:
        """Its number; None without one.

        Raises:
            FailedPrecondition: it is uncertain since a repair.
        """
        last = self.last_write(writer)
        if not last.certain:
            raise stopped(writer, self.table.name, last.number)
        return last.number

    def resume(self, writer: str, how: Resume, end: int | None = None) -> None:
        """As `tables.direct.run`."""
        resume(self.warehouse, self.table, writer, how, end)

    def _opened(self) -> ScopeTable | None:
        return open_scope(self.warehouse.target_of(self.warehouse.catalog.read(), self.table, None))

    def _partitions(self, within: str | Within) -> Within | None:
        if not isinstance(within, str):
            return within
        if not within:
            return None
        check_predicate(self.table.schema, within)
        return partial(partitions_within, self.table.schema, within)

    def _check_keyless(self) -> None:
        if self.table.schema.primary_key:
            raise Unsupported(f"{self.table.name} has a primary key: its rows are written by key, through its write log")

    def _once(self, once: WriterBatch | None) -> WriterBatch | None:
        return None if once is None else replace(once, writer=transaction_app(self.table.id, once.writer))

    def _run(self, write: DirectWrite) -> DirectResult:
        return DirectRun(self.warehouse, self.table, write, self.reach, hidden=self.hidden, job_id=self.job_id).run()


def _each_key_once(batches: Batches, key: Sequence[str]) -> Iterator[pa.Table | pa.RecordBatch]:
    """The same batches.

    Raises:
        ConstraintViolation: at the end, if a key came twice.
    """
    with SeenKeys(key) as seen:
        for batch in batches:
            seen.add(batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch]))
            yield batch
        seen.check_once()
