"""Rebuilds a scope's rows, and compares them with what was there and with what had been committed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.reading.rows import read_files
from lakewarden.log.garbled_chunks import garbled_of
from lakewarden.log.logs import reader_of
from lakewarden.log.position import NOTHING
from lakewarden.log.record import SEQ
from lakewarden.maintenance.repair.decide import RowDecision, decide, doubt_after
from lakewarden.maintenance.repair.evidence import (
    LastReadable,
    last_whole,
    later_commits,
    listed,
    rows_of_direct_writes,
    rows_of_files,
    rows_of_log,
)
from lakewarden.maintenance.repair.identities import Identities, identities
from lakewarden.maintenance.repair.look import RepairLook
from lakewarden.maintenance.repair.task import RepairTask
from lakewarden.tables.warehouse import state_store


@dataclass(frozen=True)
class Rebuilt:
    """`watermark` is that of the repaired table; `lost` is None where the number is not known."""

    decided: RowDecision
    watermark: int
    recovered: int
    lost: int | None
    identities: Identities
    complete: bool
    """Whether each row that the scope had is there again."""


def rebuild(task: RepairTask, look: RepairLook) -> Rebuilt:
    task = _readable(task)
    # What the log let go must not be applied again, wherever its rows are now.
    watermark = max(look.watermark, task.known_watermark)
    # The best evidence first: with the manifest of the last version, rows and deletions are known, and nothing is in doubt.
    newest = listed(task, look.listing)
    base = newest or last_whole(task.target, look.newest, look.sizes)
    found = None if newest is not None else _found(task, look, base, watermark)
    decided = _whole(base, task) if found is None else _decided(task, look, base, found, watermark)
    visible = _visible(task, look)
    expected = _expected(task, look)
    back = decided.rows.filter(pc.invert(pc.is_in(decided.rows.column(SEQ), value_set=visible)))
    lost = _lost(expected, decided)
    known = found is None or _is_known(task, look, base, found)
    complete = lost == 0 and not decided.doubtful.num_rows and known
    kept = identities(task, look, base, decided, complete=complete)
    # As many rows as there were, and some may be older than those that are lost.
    lost = None if lost == 0 and not known and not decided.doubtful.num_rows else lost
    return Rebuilt(decided, watermark, back.num_rows, lost, kept, complete)


def _readable(task: RepairTask) -> RepairTask:
    """Without the chunks of the log and its history that are garbled: they are as good as gone."""
    garbled = garbled_of(reader_of(state_store(task.state_uri), task.log_id), task.ranges)
    if not garbled:
        return task
    ranges = tuple(each for each in task.ranges if each not in garbled)
    # A garbled chunk may have held a tombstone: up to its last row, deletions are not all known.
    return replace(task, ranges=ranges, complete_after=max(task.complete_after, *(each.last_seq for each in garbled)))


def _is_known(task: RepairTask, look: RepairLook, base: LastReadable, found: pa.Table) -> bool:
    """Whether all that came behind the base was found, so that no older row stands for a lost one of its key."""
    brought = later_commits(task.target, look.newest, base).brought
    if any(stamp.direct for stamp in brought):
        return False
    # The log has everything behind the base, so what was put together is what was there.
    if task.complete_after <= base.watermark:
        return True
    # That as many rows are there as before shows nothing: a flush replaces rows by as many. What it took from the log does.
    return task.known_version <= look.version and all(_is_back(stamp, found) for stamp in brought)


def _is_back(flush: CommitStamp, found: pa.Table) -> bool:
    if flush.first_seq is None or flush.last_seq is None or flush.log_rows is None:
        return False
    theirs = found.filter((pc.field(SEQ) >= flush.first_seq) & (pc.field(SEQ) <= flush.last_seq))
    return bool(pc.count_distinct(theirs.column(SEQ)).as_py() >= flush.log_rows)


def _whole(newest: LastReadable, task: RepairTask) -> RowDecision:
    """The last version that was ever committed: what is settled is in it, and nothing else."""
    rows = _unerased(newest.rows, task.erased_upto)
    return RowDecision(rows, rows.slice(0, 0))


def _found(task: RepairTask, look: RepairLook, base: LastReadable, watermark: int) -> pa.Table:
    """What came after the last version that can be read whole, in files and in the log."""
    target, files = task.target, () if look.foreign else look.listing
    # Up to the watermark: later rows are pending, and the next flush takes them.
    hot = rows_of_log(reader_of(state_store(task.state_uri), task.log_id), target, task.ranges, watermark)
    return pa.concat_tables([rows_of_files(target, files, base, watermark), hot])


def _decided(task: RepairTask, look: RepairLook, base: LastReadable, found: pa.Table, watermark: int) -> RowDecision:
    target, files = task.target, () if look.foreign else look.listing
    rows, changes = (_unerased(each, task.erased_upto) for each in (base.rows, found))
    decided = decide(rows, changes, target.schema.primary_key, _doubt(task, look, base, watermark))
    # Whether their commit ever was, and what changed them since, nothing shows: they are set apart.
    direct = rows_of_direct_writes(target, files, base, watermark)
    return replace(decided, doubtful=pa.concat_tables([decided.doubtful, direct.select(decided.doubtful.column_names)]))


def _lost(expected: int | None, decided: RowDecision) -> int | None:
    """How many rows were not found; None where that is unknown, as when rows that were set apart may be among them."""
    if expected is None or (expected > decided.rows.num_rows and decided.doubtful.num_rows):
        return None
    return max(0, expected - decided.rows.num_rows)


def _doubt(task: RepairTask, look: RepairLook, base: LastReadable, watermark: int) -> int:
    """As `decide` has it: what commits that cannot be read any more may have deleted, or taken back."""
    later, gone = later_commits(task.target, look.newest, base), task.known_version > look.version
    last_delete = later.last_delete
    # Lost commits may have deleted up to what the floor knows of; without a note, any row.
    if gone or look.newest is None:
        known = task.known
        last_delete = watermark if known is None else max(last_delete, known.deleted_upto)
    # A restore that is lost may have taken back rows that files still have.
    undone = task.rewound_upto if later.restored or (gone and task.rewound_upto > look.watermark) else NOTHING
    return doubt_after(base.watermark, last_delete, task.complete_after, undone)


def _unerased(rows: pa.Table, upto: int) -> pa.Table:
    """The rows without those that an erasure had removed."""
    return rows if upto == NOTHING else rows.filter(pc.field(SEQ) > upto)


def _visible(task: RepairTask, look: RepairLook) -> pa.Array[Any]:
    """`_seq` of the rows in the newest version's files that are there."""
    if look.newest is None:
        return pa.array([], pa.int64())
    there = [file for file in look.newest.files() if file not in look.lost]
    return read_files(look.newest, there, task.target.schemas, [SEQ]).column(SEQ).combine_chunks()


def _expected(task: RepairTask, look: RepairLook) -> int | None:
    """How many rows the scope had, as far as is known."""
    known = task.known
    if known is not None and known.version >= look.version:
        return known.rows
    counts = [] if look.newest is None else [file.rows for file in look.newest.files()]
    return None if None in counts or look.newest is None else sum(count or 0 for count in counts)
