"""Barriers: subscribers need not wait for direct writes whose processes died.

A write that went quiet loses its note in the log, and so the right to commit. But it may have looked before, and have a commit on
its way. That commit follows a version which was the newest then, so it loses once another commit came first: the barrier, which
changes nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.heartbeat import BeatThread
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.state.job import new_job_id
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.lifecycle.states import check_not_frozen
from lakewarden.delta.manifest import write_manifest
from lakewarden.delta.partitions import Partition, divided
from lakewarden.delta.scope import open_scope
from lakewarden.errors import Conflict, LakewardenError, StorageUnavailable
from lakewarden.log.objects.log_view import LogView
from lakewarden.log.table_log import HELD, TableLog
from lakewarden.storage.disk import sync
from lakewarden.storage.objects import Missing
from lakewarden.storage.steps import alone
from lakewarden.tables.direct.effects import Replace
from lakewarden.tables.presence import Presence
from lakewarden.tables.warehouse import Warehouse

RENEWED_SECONDS = 20.0
"""How often a write says that it lives: several times before it counts as quiet."""

_LOGGER = logging.getLogger(__name__)
_OPERATION = "BARRIER"
_ATTEMPTS = 20


@contextmanager
def alive(log: TableLog, write_id: str) -> Iterator[None]:
    """Renews a write's note inside the block, from a thread, once it is noted."""

    def renew() -> bool:
        with suppress(Conflict):  # the next time tells
            log.renew_direct(write_id)
        return True

    with BeatThread(f"alive-{write_id}", renew, RENEWED_SECONDS):
        yield


def raise_barriers(warehouse: Warehouse, catalog: Catalog, views: Mapping[str, LogView], reach: Reach = no_faults) -> None:
    """Raises one in each table of whose writes some went quiet. What fails is left to the next call: the notes stay."""
    for table in catalog.tables.values():
        view = views.get(table.log_id)
        # By the view that the flush has anyway: a table without quiet writes costs no request.
        if view is None or table.dropping or not warehouse.log(table).has_quiet(view):
            continue
        try:
            warehouse.check_open(catalog, table, None)
            raise_barrier(warehouse, warehouse.target_of(catalog, table, None), warehouse.log(table), reach)
        except LakewardenError as error:  # one table's fault holds back no other's flush
            _LOGGER.warning("subscribers of %s wait for direct writes that went quiet: %s", table.name, error.message)


def raise_barrier(warehouse: Warehouse, target: ScopeTarget, log: TableLog, reach: Reach = no_faults) -> None:
    """Takes their right to commit from the table's direct writes that went quiet, and lets subscribers pass them. Without such
    writes, it changes nothing.

    Raises:
        Conflict, StorageUnavailable: try again; until then, subscribers wait.
    """
    present = Presence.of([target])
    present.check()
    job_id = new_job_id("write", warehouse.clock, warehouse.new_id)
    # In place of an overwrite that is held back, so that those who wait for it wait for the barrier.
    barrier_id = f"{HELD}{job_id}" if target.schema.keeps_before else job_id
    # First the notes go, then the commit: a write that looks for its note behind this is refused, one that looked before loses
    # against the commit.
    if not log.replace_quiet(barrier_id):
        return
    reach("barrier:noted")
    _commit(warehouse, target, job_id)
    reach("barrier:committed")
    sync({warehouse.uri, target.root.location.uri if target.root is not None else target.uri})
    # On a storage that went away the commit may have gone into a mount point; then the note stays, and the next barrier
    # follows.
    present.again().check()
    # Last: from here on subscribers pass, and no crash may take the barrier's commit back.
    log.close_direct(barrier_id)


def pass_direct_writes(warehouse: Warehouse, target: ScopeTarget) -> None:
    """Takes from the table's direct writes what they looked up of the catalog: those under way look again, or are committed when
    this returns. Does nothing where there is no table yet.

    Raises:
        Conflict, StorageUnavailable: others kept on committing, or the store failed.
    """
    table = open_scope(target)
    if table is None or table.is_swept:
        return
    _commit(warehouse, target, new_job_id("write", warehouse.clock, warehouse.new_id))
    sync({warehouse.uri, target.root.location.uri if target.root is not None else target.uri})


def _commit(warehouse: Warehouse, target: ScopeTarget, job_id: str) -> None:
    """Commits a version that changes nothing. Raises `Conflict` where there is no table yet, or others kept on committing."""
    for _ in range(_ATTEMPTS):
        # Before the table is opened: the commit is refused where the look is a day old (docs/decisions/0006-fences.md).
        looked = warehouse.clock()
        table = open_scope(target)
        check_not_frozen(table, target)
        if table is None or table.is_swept:
            break
        now, stamp = warehouse.clock(), CommitStamp(job_id, _OPERATION, {})
        try:
            made = alone(table.commit(CommitChange(stamp, data_change=False), since=looked, now=now))
        except Conflict:
            continue
        write_manifest(target, table.snapshot(target.app_id).after(made), now=now)
        return
    raise Conflict(f"{target.scope}: no commit could be made behind its direct writes that went quiet; try again")


# Overwrites of a table that keeps before images, which take their position long before they commit.
#
# A write behind that position has the overwritten rows before its own; as long as they are not committed, it would store the
# rows that they replace. So just before it commits, an overwrite is noted in the log, and then takes another position. Who
# looked at the log before that does not get its place behind it, and looks again; who looks later asks for such notes, and
# waits until the commit is there. And where rows of what is overwritten have come already, the overwrite is refused.

_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 1.0

_MOST_SECONDS = 180.0
"""Longer than a note takes to go quiet."""


def hold_back(log: TableLog, note: str, target: ScopeTarget, effect: Replace) -> bool:
    """Holds back writes until the note is closed; returns whether other writes went quiet.

    Raises:
        Conflict: rows that are overwritten are in the log; or others kept changing it.
        NotFound, StorageUnavailable: as `TableLog.take_position`.
    """
    try:
        others_quiet = log.open_direct(note)
        # Behind the note: who read the log before it is not directly behind what is read any more, and has to look again.
        log.take_position()
        # Rows that came before the note have the overwritten rows before their own.
        if effect.meant(target, _waiting(log, target)):
            raise Conflict(
                f"{target.scope}: rows of what is overwritten were written meanwhile; nothing was changed, retry: try again"
            )
    except (Exception, KeyboardInterrupt, SystemExit):
        with suppress(Conflict, StorageUnavailable):  # it goes quiet
            log.close_direct(note)
        raise
    return others_quiet


def _waiting(log: TableLog, target: ScopeTarget) -> Collection[Partition]:
    """The partitions of rows that no flush has taken."""
    pending = log.view(("",)).pending_of(("",)).get("")
    if pending is None:
        return ()
    try:
        rows = log.rows(pending, target.schemas)
    except Missing as gone:
        raise Conflict(f"{target.scope}: a flush came in between; nothing was changed, retry: try again") from gone
    return [partition for partition, _ in divided(rows, target.schema.partition_by)]


def wait_for_commit(warehouse: Warehouse, target: ScopeTarget, log: TableLog, view: LogView) -> None:
    """Returns when no overwrite is about to commit that has a position of the view. One that died is passed by a barrier.

    Raises:
        Conflict: it takes too long.
        StorageUnavailable: the store failed.
    """
    began, pause = time.monotonic(), _PAUSE_SECONDS
    while log.is_held(view):
        # Its process died, and its note would stay.
        if log.has_quiet(log.view(())):
            raise_barrier(warehouse, target, log)
        elif time.monotonic() - began > _MOST_SECONDS:
            raise Conflict(f"{target.scope} is being overwritten, and that takes long; nothing was written: try again")
        else:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
