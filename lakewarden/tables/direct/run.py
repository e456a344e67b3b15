"""Direct writes: rows go straight into a SHARED table's Delta table by a strict commit, past the write log.

Each takes a position of the log, by an empty segment, and gives its rows the numbers of that position. It leaves the
watermark where it is: rows that are pending land on top of it at the next flush (docs/decisions/0047-direct-writes.md).
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.write_key import PARAMETER, WITHIN_SECONDS, carried, carried_until
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.model import Table
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.job import new_job_id
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.committing import Committer
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.scope import open_scope
from lakewarden.errors import Conflict, Corrupt, LakewardenError, NotFound, SchemaChanged, StorageUnavailable, Unsupported
from lakewarden.log.once import LastBatch, Resume, WriterBatch, carried_token, check_fence
from lakewarden.log.position import NOTHING
from lakewarden.log.table_log import HELD, TableLog
from lakewarden.storage.disk import sync
from lakewarden.storage.steps import alone
from lakewarden.tables.direct.barrier import alive, hold_back, raise_barrier
from lakewarden.tables.direct.commit import DirectCommit, DirectVersion, DirectWrite
from lakewarden.tables.direct.effects import Keep, Replace
from lakewarden.tables.direct.identities import last_certain, last_write, transaction_app
from lakewarden.tables.direct.outputs import Numbers, Outputs
from lakewarden.tables.direct.value import DirectResult
from lakewarden.tables.floors import FloorNote, LogStanding, check_floor, known_of, raise_floors
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse, find_table


class DirectRun:
    """One direct write into a table, from its look at the catalog until it is durable and noted."""

    def __init__(
        self,
        warehouse: Warehouse,
        table: Table,
        write: DirectWrite,
        reach: Reach = no_faults,
        *,
        hidden: bool = False,
        job_id: str | None = None,
    ) -> None:
        """
        Args:
            hidden: the table is about to appear with the rows of this write (maintenance/admin/create_table).
            job_id: the job that the write is a part of, one write after the other; by default it is one itself.

        Raises:
        Unsupported: not a SHARED table.
        NotFound: the table was dropped.
        FailedPrecondition: the engine of its namespace is disabled.
        Conflict: it is being moved.
        SchemaChanged: it was altered since `table` was read, whose columns the rows have.
        """
        if table.type != "SHARED":
            raise Unsupported(f"{table.name} is a {table.type} table: its rows are written through its write log, by key")
        self._warehouse = warehouse
        self._log: TableLog = warehouse.log(table)
        self._table = table
        self._write = write if not (key := carried()) else replace(write, parameters={**write.parameters, PARAMETER: key})
        self._until = carried_until()
        self._token = carried_token()
        self._reach = reach
        self._hidden = hidden
        self._job_id = job_id or new_job_id("write", warehouse.clock, warehouse.new_id)
        # Before the look at the catalog, on which the commit relies; a day later it is refused (docs/decisions/0006-fences.md).
        self._planned_at = warehouse.clock()
        self._target = self._look()
        self._once = write.once
        self._mark = warehouse.erasures.mark("")
        self._announced: int | None = None
        self._noted = False
        """Whether the log notes that rows will come of which subscribers are to hear."""
        self._others_quiet = False
        self._numbers = Numbers(self._taken)

    def run(self) -> DirectResult:
        """Commits the write; durable when it returns.

        Raises:
            Conflict: others kept changing what it reads; nothing was changed.
            NotFound: the table was dropped meanwhile.
            SchemaChanged: it was altered since the rows were made; nothing was changed.
            StorageUnavailable: a storage failed; the message says so if the rows may be in the table anyway.
        """
        target = self._target
        # An unmounted storage looks like a table without versions (docs/decisions/0020-floors-and-identity.md).
        present = Presence.of([target])
        present.check()
        # By its `_seq` subscribers of a table without a key would find a row.
        numbered = self._table.schema.keyed or not self._write.silent
        outputs = Outputs(target, self._numbers.reserve, self._warehouse.new_id, numbered=numbered)
        by = Committer(self._job_id, self._planned_at, self._warehouse.clock)
        commit = DirectCommit(
            self._write, self._numbers, outputs, by, still=self._still, announce=self._announce, reach=self._reach
        )
        try:
            # Rows of many bytes take longer than the two minutes after which a note counts as quiet.
            with alive(self._log, self._note):
                landed = alone(commit.steps())
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            self._close_undone(error, commit)
            if isinstance(error, Corrupt):
                self._look()  # a drop removes files under a read
            raise
        if landed.committed or landed.repeated:
            self._finish(landed, present)
        return self._result(landed)

    def _close_undone(self, error: BaseException, commit: DirectCommit) -> None:
        """Closes the note of a write that is not committed. A commit that may appear later keeps its note."""
        # A storage that failed may have taken the commit: then the note has to wait for it.
        decided = isinstance(error, LakewardenError) and not isinstance(error, StorageUnavailable)
        if self._noted and (decided or not commit.may_be_named):
            with suppress(Conflict, StorageUnavailable):  # it goes quiet
                self._log.close_direct(self._note)

    def _taken(self) -> int:
        # First the note, then the position: readers of changes must not pass a position whose rows may still come
        # (docs/decisions/0047-direct-writes.md).
        if not (self._sets_back or self._noted or self._write.silent):
            self._noted = True  # first: a note whose answer is lost is closed too
            self._others_quiet = self._log.open_direct(self._note)
        return self._log.take_position()

    @property
    def _identity(self) -> str:
        """By which the log notes the write: the same for all attempts of it."""
        own = self._job_id if self._once is None else f"{self._once.writer}@{self._once.floor}"
        return f"{HELD}{own}" if self._holds_back is not None else own

    @property
    def _note(self) -> str:
        return self._identity if self._once is None else f"{self._identity}/{self._job_id}"

    def _look(self) -> ScopeTarget:
        catalog = self._warehouse.catalog.read()
        there = catalog.tables.get(self._table.name)
        table = there if self._hidden and there is not None else find_table(catalog, self._table.name)
        if table.id != self._table.id:
            raise NotFound(f"{table.name} was dropped, and another table now has its name: open it again")
        if table.schemas != self._table.schemas:
            raise SchemaChanged(
                f"the columns of {table.name} were changed since the rows were made for them; nothing was written: open it again"
            )
        require_active(catalog, table.name.namespace)
        self._warehouse.check_open(catalog, table, None)
        return self._warehouse.target_of(catalog, table, None)

    def _still(self) -> None:
        """Called for each version that a commit is to follow. A drop that begins after it fences what is committed.

        Raises:
            Conflict: the table was moved.
            SchemaChanged: its columns were changed.
            NotFound: it was dropped.
        """
        if self._look().location != self._target.location:
            raise Conflict(f"{self._table.name} was moved while it was written to; try again")

    def _announce(self) -> None:
        """Ends subscriptions before rows change, so that none goes on if this process dies between the commit and its note.
        Called for each version that a commit is to follow, after it was opened.

        Raises:
            Conflict: this write gave no sign of life for minutes, and others went on without it (tables/direct/barrier).
            LostPlace: it is a stream's, and another one took over.
        """
        position = self._numbers.position
        # Behind the choice of the position, as in the log: who looks for the key ten minutes later finds the commit or knows
        # that it never comes (docs/decisions/0105-a-write-carries-its-key.md).
        if self._until < time.monotonic():
            raise Conflict(f"the write took more than {WITHIN_SECONDS:.0f} seconds, and was not done; try again")
        if self._token is not None:
            check_fence(self._log.fence(), self._token)
        # A barrier stands in its place, whose commit comes behind this look; so ours must not come at all.
        if self._noted and not self._log.is_noted(self._note):
            raise Conflict(
                f"{self._target.scope}: the {self._write.operation} gave no sign of life for minutes, and others went on without"
                " it; nothing was changed, try again"
            )
        if self._announced == position:
            return
        if self._target.floor is not None and self._target.root is not None:
            # A state from a backup gives out positions again that the table has rows of
            # (docs/decisions/0020-floors-and-identity.md).
            check_floor(self._warehouse.state, LogStanding(self._target.floor, self._target.root, self._table.log_id, position))
        if self._sets_back:
            self._log.note_rewound([self._mark], position)
        if self._holds_back is not None and not self._noted:
            self._others_quiet = hold_back(self._log, self._note, self._target, self._holds_back)
            self._noted = True
        self._announced = position
        self._reach("direct:announced")

    @property
    def _holds_back(self) -> Replace | None:
        """What it overwrites of rows that others store as those before their own."""
        effect = self._write.effect
        return effect if self._write.silent and self._table.schema.keeps_before and isinstance(effect, Replace) else None

    @property
    def _sets_back(self) -> bool:
        stamp = CommitStamp("", self._write.operation, dict(self._write.parameters), app_id=self._target.app_id)
        return stamp.sets_back and not self._write.silent

    def _finish(self, landed: DirectVersion, present: Presence) -> None:
        """Makes the commit durable, and notes it on the floors and in the log.

        Raises:
            StorageUnavailable: that failed; the rows are in the table.
        """
        target = self._target
        sync({self._warehouse.uri, target.root.location.uri if target.root is not None else target.uri})
        self._reach("direct:synced")
        report = self._report(landed)
        # Behind the sync: the commit may have gone into the mount point of a disk that went away
        # (docs/decisions/0020-floors-and-identity.md).
        judged = present.again().judged(target, "write", report, self._warehouse.clock())
        try:
            if judged.fault is not None:
                raise StorageUnavailable(judged.reason)
            known = known_of(target, report, self._warehouse.clock())
            if known is not None:
                floor = target.floor
                taken = self._numbers.taken
                # The position too: a log that loses it has to show.
                positions = {} if floor is None or taken is None else {floor.table_id: taken}
                raise_floors([FloorNote(target, known)], positions).check()
            self._reach("direct:noted")
            if self._sets_back:
                # A second time, with a position of now: subscriptions that began between the first note and the commit have
                # seen rows that are gone (docs/decisions/0047-direct-writes.md).
                self._log.note_rewound([self._mark])
            # A repeated write closes the notes of earlier attempts too, whose processes may have died behind their commits.
            if self._noted or self._once is not None:
                self._log.close_direct(self._identity)
            self._reach("direct:closed")
        except LakewardenError as error:
            raise StorageUnavailable(
                f"the {self._write.operation} of {target.scope} is version {report.version} of its table, but that could not be"
                f" recorded: {error.message}; read the table before writing the rows again"
            ) from error
        if self._others_quiet:
            with suppress(Conflict, StorageUnavailable):  # the next write or flush raises it
                raise_barrier(self._warehouse, target, self._log, self._reach)

    def _report(self, landed: DirectVersion) -> ScopeReport:
        assert landed.snapshot is not None, "a commit makes a version"
        draft, state = landed.draft, landed.snapshot.state
        metrics = {
            "rows_deleted": draft.deleted + draft.updated,
            "files_removed": len(draft.removes),
            "bytes_removed": sum(file.size for file in draft.removes),
        }
        return ScopeReport(
            self._target.scope,
            "write",
            "done",
            self._target.location,
            version=state.version,
            metrics=metrics,
            state=state,
            finished_at=self._warehouse.clock(),
        )

    def _result(self, landed: DirectVersion) -> DirectResult:
        draft, snapshot = landed.draft, landed.snapshot
        return DirectResult(
            version=None if snapshot is None else snapshot.version,
            rows_inserted=landed.rows,
            rows_updated=draft.updated,
            rows_deleted=draft.deleted,
            committed=landed.committed,
            job_id=self._job_id,
            last_seq=self._numbers.end if landed.committed else NOTHING,
            repeated=landed.repeated,
        )


# Resumes a writer of direct writes whose last one is uncertain since a repair (`log.once`).
def resume(warehouse: Warehouse, table: Table, writer: str, how: Resume, end: int | None = None) -> None:
    """Says from where the writer goes on. Of a writer whose last write is certain it changes nothing.

    Args:
        end: the number up to which `skip` leaves out where the last one is not known.

    Raises:
        Conflict, NotFound, StorageUnavailable: as `DirectRun.run`.
    """
    opened, app = open_scope(warehouse.target_of(warehouse.catalog.read(), table, None)), transaction_app(table.id, writer)
    if opened is None or (last := last_write(opened, app)).certain:
        return
    skipped = end if last.number is None else last.number
    resume_at(warehouse, table, writer, how, last_certain(opened, app) if how == "repeat" else skipped)


def resume_at(warehouse: Warehouse, table: Table, writer: str, how: Resume, number: int | None) -> None:
    """The same behind that number; None for the start."""
    once = WriterBatch(transaction_app(table.id, writer), LastBatch(number).kept, resumes=True)
    DirectRun(warehouse, table, DirectWrite("WRITE", Keep(), (), {"mode": "Append", "resume": how}, once)).run()
