"""The repair of one scope's Delta table.

Damage at the top of its log (a torn commit, a checkpoint that cannot be read) is put aside. If acknowledged rows are
missing after that, the scope's rows are rebuilt from what is left (evidence, decide) and committed as a new version after
the last one that ever existed. The numbers of lost versions are filled by commits that say so, since a paused process may
still hold a snapshot of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.clock import NewId, random_id
from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.committing import transactions_of
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.failures import delta_errors
from lakewarden.delta.lifecycle.states import create_table
from lakewarden.delta.manifest import refresh_manifest
from lakewarden.delta.parquet.files import NewFile, batch_name, write_files
from lakewarden.delta.partitions import divided
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, commit_name
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Conflict, LakewardenError
from lakewarden.log.log_reader import LogReader
from lakewarden.log.logs import doubt_writers
from lakewarden.log.position import position_of
from lakewarden.log.record import SEQ
from lakewarden.maintenance.repair.evidence import RepairTask
from lakewarden.maintenance.repair.look import RepairLook, look_at, row_faults
from lakewarden.maintenance.repair.rebuild import Rebuilt, rebuild
from lakewarden.maintenance.repair.report import RepairReport, UncertainWriter
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps
from lakewarden.tables.fanout import fault_of
from lakewarden.tables.warehouse import state_store

QUARANTINE = "_quarantine"


# Puts damaged objects aside: a repair deletes nothing that it takes out of a scope's table.
#
# They are moved to `_quarantine/<job id>/` in the scope's own directory. Delta readers and vacuums skip that directory. An
# erasure removes it with the rest of the scope, and the search after an erasure looks into it.


def put_aside(location: Location, names: Iterable[str], job_id: str) -> tuple[str, ...]:
    """Moves objects of a scope into the quarantine of this job; returns their names there. Objects already gone are skipped.

    Raises:
        Conflict: an object changed while it was moved; it is at its old place.
    """
    root = local_path(location.uri)
    moved = (_renamed(root, name, job_id) if root is not None else _copied(location, name, job_id) for name in names)
    return tuple(name for name in moved if name)


def quarantined(name: str, job_id: str) -> str:
    return f"{QUARANTINE}/{job_id}/{name}"


def _renamed(root: Path, name: str, job_id: str) -> str:
    """Renames, then checks what was renamed: another process may have put a sound commit there since it was read."""
    source, target = root / name, root / quarantined(name, job_id)
    with delta_errors(f"cannot put {source} aside"):
        try:
            before = sha256(source.read_bytes()).digest()
        except FileNotFoundError:
            return ""
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        # Another process may have put a sound commit under the name between the read and the rename.
        if sha256(target.read_bytes()).digest() != before:
            # By a link, which fails where the name is taken by now: a rename would overwrite what is there.
            source.hardlink_to(target)
            target.unlink()
            raise Conflict(f"{source} changed while it was put aside; repair again")
    return quarantined(name, job_id)


def _copied(location: Location, name: str, job_id: str) -> str:
    """Objects of a bucket never change under their name, so it copies and deletes."""
    store = open_store(location)
    try:
        data = store.get(name)
    except Missing:
        return ""
    # First the copy, then the deletion: a crash in between leaves both.
    store.write(quarantined(name, job_id), data)
    store.delete([name])
    return quarantined(name, job_id)


_OPERATION = "REPAIR"


def repair_scope(task: RepairTask) -> Steps[RepairReport]:
    """Repairs the scope; one without damage is `skipped`."""
    try:
        return (yield from _repair(task))
    except LakewardenError as error:
        return RepairReport(task.target.scope, "failed").failed(fault_of(error))


def _repair(task: RepairTask) -> Steps[RepairReport]:
    look = look_at(task)
    tops, rows = look.damage.said, row_faults(task, look)
    found = _as_it_is(task, look)
    if not (tops or rows):
        return found
    planned = replace(found, outcome="planned", reason="; ".join([*tops, *rows]))
    # A torn commit alone costs no row: a flush settles only behind the sync, so its rows are still in the log
    # (docs/decisions/0019-durable-before-named.md).
    rebuilt = rebuild(task, look) if rows else None
    if rebuilt is not None:
        planned = replace(
            planned,
            rows_recovered=rebuilt.recovered,
            rows_quarantined=rebuilt.decided.doubtful.num_rows,
            rows_lost=rebuilt.lost,
            watermark=rebuilt.watermark,
            rows=rebuilt.decided.rows.num_rows,
            writers_uncertain=(*rebuilt.identities.uncertain, *_writers_in_doubt(task, rebuilt)),
        )
    return planned if task.dry_run else (yield from _carry_out(task, look, rebuilt, planned))


def _writers_in_doubt(task: RepairTask, rebuilt: Rebuilt) -> Iterator[UncertainWriter]:
    """Those whose rows came through the log, any of which may be a lost one."""
    if not rebuilt.complete:
        for key, last in LogReader(state_store(task.state_uri), task.target.log_id).last_batches().items():
            yield UncertainWriter(key, last.number)


def _as_it_is(task: RepairTask, look: RepairLook) -> RepairReport:
    scope = task.target.scope
    if look.newest is None:
        return RepairReport(scope, "skipped")
    rows = look.newest.state(task.target.app_id).rows
    return RepairReport(scope, "skipped", version=look.version, watermark=look.watermark, rows=rows)


def _carry_out(task: RepairTask, look: RepairLook, rebuilt: Rebuilt | None, planned: RepairReport) -> Steps[RepairReport]:
    """Sets the doubtful rows apart first, so that a crash leaves them at their old place or there."""
    location = task.target.location
    if rebuilt is not None and not rebuilt.complete:
        doubt_writers(state_store(task.state_uri), task.target.log_id)  # first: a repair that dies here is not the last one
    apart = _set_apart(task, rebuilt.decided.doubtful) if rebuilt is not None else ()
    yield location.uri
    # Behind the sync: rows that are set apart are durable before the objects that hold them are moved.
    aside = put_aside(location, _in_the_way(look), task.job_id)
    version = (yield from _commit(task, rebuilt)) if rebuilt is not None else _reopened(task)
    yield location.uri
    return replace(planned, outcome="done", put_aside=(*aside, *apart), version=version)


def _in_the_way(look: RepairLook) -> list[str]:
    """The whole table, if it is another scope's or cannot be read at all; else the damage at the top of its log."""
    if look.newest is None:
        return [found.key for found in look.listing if not found.key.startswith(f"{QUARANTINE}/")]
    hint = {LAST_CHECKPOINT} if look.damage.checkpoints else set()  # readers do not need it, but it must not mislead them
    return [*map(commit_name, look.damage.torn), *sorted({*look.damage.checkpoints, *hint})]


def _set_apart(task: RepairTask, rows: pa.Table, new_id: NewId = random_id) -> tuple[str, ...]:
    """Writes rows that may have been deleted to a place that no reader of the table uses."""
    if not rows.num_rows:
        return ()
    schema = replace(task.target.schema, partition_by=())  # no directory of a partition
    target = replace(task.target, schemas=(*task.target.schemas[:-1], schema), buckets=1)
    made = write_files(target, rows, lambda: quarantined(f"rows-{new_id()}.parquet", task.job_id))
    return tuple(file.path for file in made)


def _commit(task: RepairTask, rebuilt: Rebuilt) -> Steps[int]:
    """Commits the rebuilt rows in place of all that is live; returns the version."""
    target, now = task.target, task.clock()
    table = yield from _behind_the_last(task)
    number = table.next_batch()
    files = _written(task, rebuilt.decided.rows, number)
    metrics = {
        "numOutputRows": rebuilt.decided.rows.num_rows,
        "numRecoveredRows": rebuilt.recovered,
        "numQuarantinedRows": rebuilt.decided.doubtful.num_rows,
    }
    stamp = CommitStamp(task.job_id, _OPERATION, {}, metrics)
    # The watermark of before: pending rows go on top of what came back, and settled ones do not come twice.
    own = transactions_of((target.app_id, rebuilt.watermark), number if files else None, _direct(rebuilt))
    change = CommitChange(stamp, own | dict(rebuilt.identities.transactions), adds=files, removes=table.files())
    made = yield from table.commit(change, since=task.clock.moment, now=now, schemas=target.schemas)
    _reopened(task)
    return made.version


def _direct(rebuilt: Rebuilt) -> int | None:
    """The position of the newest direct write whose rows are among the rebuilt ones; None where all came through the log."""
    newest: int | None = pc.max(rebuilt.decided.rows.column(SEQ)).as_py()
    # Beyond the watermark are only the numbers of direct writes.
    return None if newest is None or newest <= rebuilt.watermark else position_of(newest)


def _written(task: RepairTask, rows: pa.Table, number: int) -> tuple[NewFile, ...]:
    if not rows.num_rows:
        return ()
    step = max(1, rows.num_rows * task.target.target_file_size // max(1, rows.nbytes))
    partitions = (part for _, part in divided(rows, task.target.schema.partition_by))
    parts = (part.slice(start, step) for part in partitions for start in range(0, part.num_rows, step))
    return tuple(chain(*(write_files(task.target, part, partial(batch_name, number, random_id)) for part in parts)))


def _behind_the_last(task: RepairTask) -> Steps[ScopeTable]:
    """The table, its newest version at least the last that is known to have been committed."""
    target = task.target
    if ScopeTable.open(target.location) is None:
        stamp = CommitStamp(task.job_id, _OPERATION, {"lost_version": "0"} if task.known_version >= 0 else {})
        yield from create_table(target, CommitChange(stamp), since=task.clock.moment, now=task.clock())
    # Numbers of lost versions are taken by commits that change nothing: a process may still hold a snapshot of one
    # (docs/decisions/0006-fences.md).
    while (table := _table(task)).version < task.known_version:
        stamp = CommitStamp(task.job_id, _OPERATION, {"lost_version": str(table.version + 1)})
        yield from table.commit(CommitChange(stamp, data_change=False), since=task.clock.moment, now=task.clock())
    return table


def _table(task: RepairTask) -> ScopeTable:
    table = ScopeTable.open(task.target.location)
    if table is None:
        raise Conflict(f"{task.target.scope}: its table disappeared during the repair; repair again")
    return table


def _reopened(task: RepairTask) -> int | None:
    """Returns the version that readers find now, after writing it to the manifest."""
    table = ScopeTable.open(task.target.location)
    if table is None:
        return None
    refresh_manifest(task.target, table, task.clock())
    return table.version
