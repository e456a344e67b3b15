"""Which writers of a scope keep their identity behind a repair: those all of whose rows are back.

Of another writer it is not known whether its last writes are in the table. Its number stays as an uncertain one, beside the last
that is certain, and the writer stops until it is resumed (`log.once`). Where commits are lost that cannot be read, any writer may
have made them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow.compute as pc

from lakewarden.delta.commit_log.kept_versions import NAME, verified
from lakewarden.delta.table import ScopeTable
from lakewarden.log.once import ANY, UNTAKEN, LastBatch
from lakewarden.log.record import SEQ
from lakewarden.maintenance.repair.decide import RowDecision
from lakewarden.maintenance.repair.evidence import LastReadable
from lakewarden.maintenance.repair.look import RepairLook
from lakewarden.maintenance.repair.report import UncertainWriter
from lakewarden.maintenance.repair.task import RepairTask
from lakewarden.storage.objects import Missing
from lakewarden.storage.open import open_store
from lakewarden.tables.direct.identities import certain_app, is_writer, last_certain, transaction_app, writer_of


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
    certain = _at(base, look) if _is_back(base, decided) else {}
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


def _is_back(base: LastReadable, decided: RowDecision) -> bool:
    """Whether none of the base's rows is set apart."""
    doubtful = decided.doubtful.column(SEQ)
    return not len(doubtful) or not pc.any(pc.is_in(base.rows.column(SEQ), value_set=doubtful)).as_py()
