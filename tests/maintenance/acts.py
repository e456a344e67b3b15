"""What the campaigns against a store do to a warehouse, and what must be there once it was done, however often it was tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakewarden import Column, Lakehouse
from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import Fault, ScopeReport
from lakewarden.errors import LakewardenError, Transient
from lakewarden.storage.open import open_store
from tests.fixtures.lakes import NOTES, Rows, eventual, make_notes, notes, strong

SETTINGS = Settings(compaction=CompactionSettings(min_eligible_segments=2))

OTHER = "other"
EVENTS = "chat.events"
UPLOADS = "chat.uploads"

_FLUSHED = {1: "c", 2: "b", 3: "d"}
ALL = {**_FLUSHED, 4: "hot"}
_BOB = {1: "bob"}

Work = Callable[[Lakehouse], object]


@dataclass(frozen=True)
class Act:
    """`notes`: the rows of ann's, `bob`: those of bob's, behind it; both after a flush."""

    work: Work
    notes: Rows
    bob: Rows
    events: int = 1
    """How often its row is in the table without a key; there a repetition whose outcome was unknown may add another."""
    uploads: tuple[int, ...] = ()


def _sql(text: str) -> Work:
    return lambda lake: lake.sql(text)


ACTS: Mapping[str, Act] = {
    "write": Act(lambda lake: lake.table(NOTES).write(notes({5: "new"}), user="ann"), {**ALL, 5: "new"}, _BOB),
    "direct write": Act(_sql(f"INSERT INTO {EVENTS} SELECT 7 AS id"), ALL, _BOB, events=2),
    "ingest": Act(lambda lake: lake.ingest(UPLOADS), ALL, _BOB, uploads=(1, 2)),
    "flush": Act(lambda lake: lake.flush(), ALL, _BOB),
    "compact": Act(lambda lake: lake.compact(NOTES), ALL, _BOB),
    "optimize": Act(lambda lake: lake.optimize(NOTES, zorder=["id"]), ALL, _BOB),
    "vacuum": Act(lambda lake: lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False), ALL, _BOB),
    "restore": Act(lambda lake: lake.restore(NOTES, user="ann", version=0, dry_run=False), {1: "a", 2: "b"}, _BOB),
    "erase": Act(lambda lake: lake.erase("bob", even_if_unknown=True), ALL, {}),
    "move": Act(lambda lake: lake.move(NOTES, OTHER), ALL, _BOB),
}


def prepare(lake: Lakehouse) -> None:
    """Three versions of ann's with a row in the log, one of bob's; a table without a key, and one that takes uploads."""
    uri = lake.warehouse.uri
    table = make_notes(lake)
    kind = "s3" if "://" in uri else "filesystem"
    lake.create_storage(OTHER, type=kind, base=f"{uri}-other")
    for upserts in ({1: "a", 2: "b"}, {1: "c"}, {3: "d"}):
        table.write(notes(upserts), user="ann")
        if not table.read(user="bob").num_rows:
            table.write(notes(_BOB), user="bob")
        assert [report.fault for report in lake.flush() if report.fault] == []
    table.write(notes({4: "hot"}), user="ann")
    lake.create_table(EVENTS, type="SHARED", columns=[Column("id", "BIGINT")]).write([{"id": 7}])
    source = f"{uri}-uploads"
    lake.sql(f"CREATE SHARED TABLE {UPLOADS} FROM TEMPLATE csv WITH (SOURCE = '{source}')")
    for number in (1, 2):
        open_store(Location(source)).put(f"{number}.csv", f"id,name\n{number},x\n".encode())


def faults_of(lake: Lakehouse, work: Work) -> list[Fault]:
    """Does it; what went wrong, as values."""
    try:
        found = work(lake)
    except LakewardenError as error:
        return [Fault(error.code, error.message, isinstance(error, Transient))]
    reports = found if isinstance(found, list) else []
    return [report.fault for report in reports if isinstance(report, ScopeReport) and report.fault]


def wrong(lake: Lakehouse, act: Act, *, unknown: bool) -> list[str]:
    """Behind a try that ended without a fault: in which way the warehouse is another one than it must be.

    Args:
        unknown: an earlier try had ended with a fault, so that a row without a key may be there once more.
    """
    found = [str(fault) for fault in faults_of(lake, lambda lake: lake.flush())]
    table, events = lake.table(NOTES), lake.table(EVENTS).read().num_rows
    for user, rows in (("ann", act.notes), ("bob", act.bob)):
        for name, read in (("strong", strong), ("eventual", eventual)):
            if (there := read(table, user)) != rows:
                found.append(f"{name} read of {user}: {there}, not {rows}")
    if not act.events <= events <= act.events + (unknown and act.events > 1):
        found.append(f"{events} events, not {act.events}")
    if act.uploads:
        taken = sorted(map(str, lake.table(UPLOADS).read().column("id").to_pylist()))
        found += [f"uploads {taken}"] if taken != [*map(str, act.uploads)] else []
    return found + [f"check: {one}" for one in lake.check() if not one.passed]
