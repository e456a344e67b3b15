"""Steps done by the library, as a caller does them: the tables that there are, and one function that does a step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import Clock, NewId, random_id, system_clock
from lakewarden.base.setting_sections import CompactionSettings, FlushSettings, LockSettings, LogSettings, MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.model import TableType
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import Conflict
from lakewarden.storage.disk import TEMPORARY
from tests.crash.steps import ScopeKey, Step, stamp_of, text_of

NOTES, FACTS, SHORT_LIVED, BESIDE = "crash.notes", "crash.facts", "crash.short", "crash.beside"
SHARED = frozenset({FACTS})
_COLUMNS = [Column("id", "BIGINT"), Column("text", "TEXT")]
_NEVER_SPARK = 1_000_000


class StepFailed(Exception):
    """A step did not do what it was begun for."""


def settings(rng: Random) -> Settings:
    """Those that decide what is kept and moved are drawn."""
    return Settings(
        log=LogSettings(carry_below=rng.choice([0.0, 0.5, 1.0]), retention_seconds=rng.choice([0.0, 3600.0])),
        flush=FlushSettings(in_process_below=_NEVER_SPARK),
        compaction=CompactionSettings(min_eligible_segments=2),
        maintenance=MaintenanceSettings(min_gain=0.0),
        locks=LockSettings(lease_seconds=1.0),  # of a process that was cut off: its drop is taken up as soon
    )


def open_lake(uri: str, rng: Random, clock: Clock = system_clock, new_id: NewId = random_id) -> Lakehouse:
    return Lakehouse.open(uri, settings=settings(rng), clock=clock, new_id=new_id)


def prepare(uri: str, rng: Random) -> set[str]:
    """Makes the warehouse and its tables; their names."""
    tables = (NOTES, FACTS, SHORT_LIVED, BESIDE)
    with open_lake(uri, rng) as lake:
        lake.create_namespace("crash")
        for name in tables:
            create(lake, name)
    return set(tables)


def create(lake: Lakehouse, name: str) -> None:
    kind: TableType = "SHARED" if name in SHARED else "USER"
    lake.create_table(name, type=kind, columns=_COLUMNS, primary_key=["id"], if_not_exists=True)


def perform(lake: Lakehouse, number: int, step: Step) -> dict[ScopeKey, int]:
    """Which versions of scopes it made.

    Raises:
        StepFailed: a scope's report says so.
    """
    tables = [step.table] if step.table else []
    match step.kind:
        case "write":
            lake.table(step.table).write(rows_of(number, step), user_column=who_of(step))
        case "delete":
            lake.table(step.table).delete(_keys(step), user_column=who_of(step))
        case "flush":
            return _versions(lake.flush(*tables))
        case "compact":
            _versions(lake.compact(*tables))
        case "optimize":
            _versions(lake.optimize(*tables))
        case "vacuum":
            _versions(lake.vacuum(*tables, retain_hours=0, force=True, dry_run=False))
        case "restore":
            return _versions(restore(lake, step))
        case "drop" | "create" | "erase":
            finish(lake, step)
    return {}


def restore(lake: Lakehouse, step: Step) -> list[ScopeReport]:
    return lake.restore(step.table, user=step.user or None, version=step.version, discard_pending=step.discard, dry_run=False)


def finish(lake: Lakehouse, step: Step) -> None:
    """Does what can be done again until it is done."""
    match step.kind:
        case "create":
            create(lake, step.table)
        case "drop":
            lake.drop_table(step.table)
        case "erase":
            _erase(lake, step)


def _erase(lake: Lakehouse, step: Step) -> None:
    """A write that was cut off may be all that there was of the user. It may also leave a temporary file with rows: the erasure
    names it, and wants it removed."""
    try:
        lake.erase(step.user, [step.table], even_if_unknown=True)
    except Conflict as conflict:
        if f"/{TEMPORARY}/" not in conflict.message:
            raise
        for left in Path(lake.warehouse.uri, "_lakewarden", TEMPORARY).iterdir():
            left.unlink()
        lake.erase(step.user, [step.table], even_if_unknown=True)


def who_of(step: Step) -> str | None:
    return None if step.table in SHARED else "who"


def rows_of(number: int, step: Step) -> list[dict[str, object]]:
    return [
        _who(user) | {"id": key, "text": text_of(stamp_of(number, size), key)}
        for user, sizes in step.sizes.items()
        for key, size in sizes.items()
    ]


def _keys(step: Step) -> list[dict[str, object]]:
    return [_who(user) | {"id": key} for user, sizes in step.sizes.items() for key in sizes]


def _who(user: str) -> dict[str, object]:
    return {"who": user} if user else {}


def _versions(reports: Sequence[ScopeReport]) -> dict[ScopeKey, int]:
    if failed := [report for report in reports if report.fault]:
        raise StepFailed(f"{failed[0].operation} of {failed[0].scope}: {failed[0].fault}")
    return {
        ScopeKey(str(report.scope.table), report.scope.user or ""): report.version
        for report in reports
        if report.version is not None and str(report.scope.table) != BESIDE
    }
