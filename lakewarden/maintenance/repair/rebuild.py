"""Rebuilds a scope's rows, and compares them with what was there and with what had been committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.delta.commit_log.kept_versions import NAME, verified
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.reading.rows import FileGroup
from lakewarden.delta.table import ScopeTable
from lakewarden.log.log_reader import LogReader
from lakewarden.log.once import ANY, UNTAKEN, LastBatch
from lakewarden.log.position import NOTHING
from lakewarden.log.record import SEQ
from lakewarden.maintenance.repair.decide import RowDecision, decide, doubt_after
from lakewarden.maintenance.repair.evidence import (
    LastReadable,
    RepairTask,
    last_whole,
    later_commits,
    listed,
    rows_of_direct_writes,
    rows_of_files,
    rows_of_log,
)
from lakewarden.maintenance.repair.look import RepairLook
from lakewarden.maintenance.repair.report import UncertainWriter
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store
from lakewarden.tables.direct.identities import certain_app, is_writer, last_certain, transaction_app, writer_of
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
    garbled = LogReader(state_store(task.state_uri), task.target.log_id).garbled(task.ranges)
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
    hot = rows_of_log(LogReader(state_store(task.state_uri), task.target.log_id), target, task.ranges, watermark)
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
    return FileGroup.of(look.newest, there, task.target.schemas, [SEQ]).read().column(SEQ).combine_chunks()


def _expected(task: RepairTask, look: RepairLook) -> int | None:
    """How many rows the scope had, as far as is known."""
    known = task.known
    if known is not None and known.version >= look.version:
        return known.rows
    counts = [] if look.newest is None else [file.rows for file in look.newest.files()]
    return None if None in counts or look.newest is None else sum(count or 0 for count in counts)


# Which writers of a scope keep their identity behind a repair: those all of whose rows are back.
#
# Of another writer it is not known whether its last writes are in the table. Its number stays as an uncertain one, beside the
# last that is certain, and the writer stops until it is resumed (`log.once`). Where commits are lost that cannot be read, any
# writer may have made them.


@dataclass(frozen=True)
class Identities:
    """`transactions`: what the repaired table says of its writers."""

    transactions: Mapping[str, int] = field(default_factory=dict)
    uncertain: tuple[UncertainWriter, ...] = ()


def identities(task: RepairTask, look: RepairLook, base: LastReadable, decided: RowDecision, *, complete: bool) -> Identities:
    """
    Args:
        base: the last version that could be read whole.
        complete: all rows that the scope had are among those of `decided`.
    """
    if task.target.scope.user is not None:
        return Identities()  # its rows come through the log, which keeps their writers
    found: dict[str, int] = {}
    there, kept, unread = _numbers(task, look)
    certain = _at(base, look) if _has_come_back(base, decided) else {}
    for app, last in there.items():
        before = certain.get(app)
        # All rows are back, or the write is wholly in the version that the repair starts from
        # (docs/decisions/0100-identities-behind-a-repair.md).
        if (complete and (app in kept or not unread)) or (before == last and not unread):
            found[app] = last.kept
            continue
        found[app] = LastBatch(None if unread else last.number, certain=False).kept
        # For a resume by `repeat`, which goes on behind it.
        found[certain_app(app)] = UNTAKEN if before is None else before.kept
    # A commit of which no identity is known may have been a writer's first.
    if unread:
        found[transaction_app(task.table_id, ANY)] = LastBatch(None, certain=False).kept
    return _of(found)


def _of(found: dict[str, int]) -> Identities:
    lasts = {writer_of(app): LastBatch.of(kept) for app, kept in found.items() if is_writer(app)}
    return Identities(found, tuple(UncertainWriter(name, one.number) for name, one in lasts.items() if not one.certain))


def _numbers(task: RepairTask, look: RepairLook) -> tuple[dict[str, LastBatch], Collection[str], bool]:
    """By application id, the last number of each writer; of which of them the last version says it; and whether lost commits may
    have brought other ones."""
    newest = {} if look.newest is None else _writers(look.newest)
    # No commit is lost, so the newest version has every number.
    if task.known_version <= look.version:
        return newest, newest, False
    kept = _kept(task)
    return {**newest, **(kept or {})}, kept or {}, kept is None or task.known_version > look.version + 1


def _kept(task: RepairTask) -> dict[str, LastBatch] | None:
    """What the manifest keeps of the version that was committed last; None where it is not that version's."""
    try:
        text = open_store(task.target.location).get(NAME)
    except Missing:
        return None
    found = verified(text, task.target.manifest_key, task.target.app_id)
    # The manifest of another version lacks later writers.
    if found is None or found.version != task.known_version:
        return None
    return {app: LastBatch.of(kept) for app, kept in found.transactions.items() if kept is not None and is_writer(app)}


def _writers(table: ScopeTable) -> dict[str, LastBatch]:
    apps = sorted(filter(is_writer, table.log_state.transactions))
    return {app: LastBatch.of(table.watermark(app)) for app in apps}


def _at(base: LastReadable, look: RepairLook) -> dict[str, LastBatch]:
    """What of each writer the base has for certain, as far as its commits can be read."""
    if base.version is None or look.newest is None:
        return {}
    table = ScopeTable.open(look.newest.location, min(base.version, look.version))
    if table is None:
        return {}
    lasts = _writers(table)
    return {app: last if last.certain else LastBatch(last_certain(table, app)) for app, last in lasts.items()}


def _has_come_back(base: LastReadable, decided: RowDecision) -> bool:
    """Whether none of the base's rows is set apart."""
    doubtful = decided.doubtful.column(SEQ)
    return not len(doubtful) or not pc.any(pc.is_in(base.rows.column(SEQ), value_set=doubtful)).as_py()
