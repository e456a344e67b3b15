"""Fences: a removed table leaves an empty version, so that its version numbers never start again.

A process may still hold an old snapshot. Were the directory simply removed, their commit could land as a later version of
a table made anew at the same place (verified). With the fence on top it is refused as a conflict. A vacuum removes the
fence once no process can hold such a snapshot any more (maintenance/vacuum/sweep.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.base.attempts import Attempts
from lakewarden.base.connection import Location
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CommitChange
from lakewarden.delta.commit_log.committing import Committer, TooLate, check_held, may_lose
from lakewarden.delta.commit_log.damage import leads_nowhere
from lakewarden.delta.commit_log.publish import Still, version_of_unnamed
from lakewarden.delta.commit_log.stamp import DROP, ERASE, CommitStamp
from lakewarden.delta.lifecycle.states import create_table
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, LOG, LogFiles, LogObjects, leading_version
from lakewarden.delta.scope import begun_anew, open_place
from lakewarden.delta.table import ScopeTable, check_whole
from lakewarden.errors import Conflict, Corrupt
from lakewarden.storage.disk import remove_all_leftovers, remove_emptied_directories
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps


def fence(target: ScopeTarget, by: Committer) -> Steps[int | None]:
    """Empties the scope's table for good and returns the fence's version; None where there is no table. May be repeated.

    Raises:
        Conflict: others kept on committing; or it was looked up too long ago, or another table has begun there (`TooLate`).
    """
    store = open_store(target.location)
    # a flush may commit once more before it learns that the table is gone; more than this is a writer that will not stop
    attempts = Attempts(20, f"{target.scope} was written to", "while it was being dropped", "stop its writers and try again")
    while attempts.next():
        table = open_place(target)
        if table is None:
            return None
        if other := begun_anew(table, target):
            raise TooLate(f"{target.uri} has rows of another table by now ({other}); if they were copied there, remove them")
        names = store.keys()
        with may_lose():
            version = yield from _emptied(table, target, by)
            _clear(store, names, version, by)
            return version


def fence_settled(target: ScopeTarget, watermark: int, by: Committer, still: Still) -> Steps[int]:
    """The same, with a watermark that tells a late flush that its rows are settled, also where no table was yet.

    What cannot be opened is removed whole. May be repeated.

    Args:
        still: raises `TooLate` once the user may start again; called between the look at the table and the commit after it.

    Raises:
        Conflict: others kept on committing; or it was looked up too long ago, or as `still` says (`TooLate`).
    """
    store = open_store(target.location)
    attempts = Attempts(20, f"{target.scope} was written to", "while it was being erased")
    while attempts.next():
        with may_lose():
            version, names = yield from _settled(target, store, watermark, by, still)
            _clear(store, names, version, by)
            return version


def _settled(
    target: ScopeTarget, store: ObjectStore, watermark: int, by: Committer, still: Still
) -> Steps[tuple[int, Sequence[str]]]:
    """The fence's version, and what was there before it: listed after the table was opened, so that whatever was committed
    in between refuses the fence."""
    try:
        table = open_place(target)
        check_whole(table, target.location)
        if table is not None:
            known = table.watermark(target.app_id)
            settled = watermark if known is None else max(known, watermark)
            names = store.keys()
            still()
            return (yield from _emptied(table, target, by, ERASE, (target.app_id, settled))), names
    except Corrupt:
        still()
        store.delete(store.keys())
        remove_all_leftovers(store.uri)
    names = store.keys()
    stamp = CommitStamp(by.job_id, ERASE)
    yield from create_table(target, CommitChange(stamp, {target.app_id: watermark}), since=by.since, now=by.clock())
    yield target.uri
    return 0, names


def _emptied(
    table: ScopeTable, target: ScopeTarget, by: Committer, operation: str = DROP, transaction: tuple[str, int] | None = None
) -> Steps[int]:
    """Commits and checkpoints a version without files, durably: what is below it is emptied then."""
    files = table.files()
    metrics = {"numRemovedFiles": len(files), "numDeletedRows": table.state(target.app_id).rows}
    stamp = CommitStamp(by.job_id, operation, {}, metrics)
    yield from table.empty(stamp=stamp, since=by.since, now=by.clock(), transaction=transaction)
    fenced = open_place(target)
    if fenced is None:
        raise Corrupt(f"{target.uri}: the table vanished while it was being dropped")
    if fenced.files():
        raise Conflict(f"{target.uri} was written to while it was being dropped")
    fenced.checkpoint()
    yield target.uri
    return fenced.version


def _clear(store: ObjectStore, names: Sequence[str], fence_version: int, by: Committer) -> None:
    """Deletes every file but the log's; of the log, empties what is older than the fence and deletes older checkpoints, and
    commits that never got their name: they hold values of columns.

    `names` were there before the fence, so no file among them belongs to a table that was started on top of it. Of the log what
    came since goes too, as a checkpoint that was late; its names are made again only once the fence is gone.
    """
    data = [name for name in names if not name.startswith(f"{LOG}/")]
    store.delete(data)
    remove_emptied_directories(store.uri, data)
    remove_all_leftovers(store.uri)
    check_held("the fence's end", by.since, by.clock())
    log = store.keys(LOG)
    older = [name for name in log if (version := leading_version(name)) is not None and version < fence_version]
    for name in older:
        if name.endswith(".json"):
            store.replace(name, b"")
    store.delete(name for name in older if not name.endswith(".json"))
    pointer = LogObjects(Location(store.uri), store).pointer()
    if leads_nowhere(pointer, LogFiles.of(name for name in log if name not in older)):
        store.delete([LAST_CHECKPOINT])  # of a drop that was late, and whose checkpoint another one has deleted
    # of writers that died, or are about to be refused
    store.delete(name for name in log if (version := version_of_unnamed(name)) is not None and version <= fence_version)
