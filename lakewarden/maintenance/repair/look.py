"""Finds what is wrong with one scope's Delta table, without changing anything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from lakewarden.delta.commit_log.damage import LogDamage, damage_of
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.replay.log_objects import LOG
from lakewarden.delta.scope import copied_from
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt
from lakewarden.log.position import NOTHING
from lakewarden.maintenance.repair.evidence import RepairTask, garbled_files, missing_files
from lakewarden.storage.objects import StoredObject
from lakewarden.storage.open import open_store


@dataclass(frozen=True)
class RepairLook:
    """The scope as it was found."""

    damage: LogDamage
    """At the top of the Delta log; it can be put aside."""
    foreign: str
    """Why the table is another scope's; empty where it is this one's."""
    newest: ScopeTable | None
    """Its newest readable version, some of whose files may be missing; None where there is no such version of this scope."""
    watermark: int
    listing: tuple[StoredObject, ...]
    garbled: tuple[DataFile, ...] = ()
    """Live files that have their recorded size and cannot be read, where the files were read."""

    @cached_property
    def sizes(self) -> dict[str, int]:
        return {found.key: found.size for found in self.listing}

    @property
    def version(self) -> int:
        return -1 if self.newest is None else self.newest.version

    @cached_property
    def missing(self) -> tuple[DataFile, ...]:
        """Live files that do not exist, or do not have their recorded size."""
        return () if self.newest is None else missing_files(self.newest.files(), self.sizes)

    @property
    def lost(self) -> tuple[DataFile, ...]:
        """Live files whose rows cannot be read."""
        return (*self.missing, *self.garbled)


def look_at(task: RepairTask) -> RepairLook:
    target = task.target
    damage, listing = damage_of(target.location), tuple(open_store(target.location).list(""))
    try:
        newest = ScopeTable.open(target.location)
    except Corrupt:
        newest = None  # its log cannot be read at all
    # A directory that was copied over this one reads well, and is another user's.
    foreign = "" if newest is None else copied_from(newest, target)
    if newest is None or foreign:
        return RepairLook(damage, foreign, None, NOTHING, listing)
    watermark = newest.watermark(target.app_id)
    look = RepairLook(damage, "", newest, NOTHING if watermark is None else watermark, listing)
    if not task.reads_files:
        return look
    there = [file for file in newest.files() if file not in look.missing]
    return replace(look, garbled=garbled_files(target, there))


def row_faults(task: RepairTask, look: RepairLook) -> list[str]:
    """Why acknowledged rows are missing, or are not where readers find them; empty where none are."""
    if look.foreign:
        return [f"the directory was copied here: {look.foreign}"]
    faults = []
    # Without a log the scope may never have been flushed; what the floor knows decides below.
    if look.newest is None and any(found.key.startswith(f"{LOG}/") for found in look.listing) and not look.damage:
        faults.append("its Delta log cannot be read")
    if look.missing:
        faults.append(f"{len(look.missing)} of its data files are missing or cut off, as {look.missing[0].path}")
    if look.garbled:
        faults.append(f"{len(look.garbled)} of its data files are garbled, as {look.garbled[0].path}")
    # The floor is noted behind the sync, so a version that it knows was durable once.
    if task.known_version > look.version:
        there = "no table is there" if look.newest is None else f"the newest version that can be read is {look.version}"
        faults.append(f"version {task.known_version} was committed, and {there}")
    # The log let rows go because a table had them; this one does not.
    elif task.known_watermark > look.watermark:
        faults.append("rows that the write log has settled are not in its table")
    return faults
