"""Repairs one table's write log: gives up what is lost, and continues it after everything that was ever settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog, Pipeline, Table
from lakewarden.catalog.state.ledger import Ledger
from lakewarden.catalog.state.ledger_faults import faults_of, give_up
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.log.objects.cuts.mend import LogFaults
from lakewarden.log.once import ANY
from lakewarden.log.position import NOTHING
from lakewarden.log.table_log import TableLog
from lakewarden.maintenance.repair.report import RepairReport, UncertainWriter
from lakewarden.tables.direct.identities import memories_of
from lakewarden.tables.fanout import fault_of
from lakewarden.tables.warehouse import Warehouse


def without_lost(warehouse: Warehouse, table: Table, faults: LogFaults, settled: int, *, dry_run: bool) -> list[RepairReport]:
    """Gives up what is lost; returns one report, or none where nothing is.

    Args:
        settled: the last position that is known to have been settled. What is missing up to it is in the tables: a cut was
            lost, but no row.
    """
    if not faults:
        return []
    # Up to `settled` the rows are in the tables; only the segments, or a cut, are missing.
    rows = [faults.rows.get(position) for position in faults.positions if position > settled]
    # What was in carry no link counts.
    lost = None if faults.carry or None in rows else sum(count or 0 for count in rows)
    planned = RepairReport(Scope(table.name, None), "planned", "log", faults.summary, rows_lost=lost)
    log = warehouse.log(table)
    doubted = bool(faults.positions or faults.carry)
    if doubted:
        planned = replace(planned, writers_uncertain=writers_in_doubt(log))
    if dry_run:
        return [planned]
    log.give_up(faults)
    return [planned.ended("done")]


def without_garbled(
    warehouse: Warehouse, table: Table, user: str | None, spared: Callable[[str | None], bool]
) -> list[RepairReport]:
    """Gives up what is garbled of the pending rows, of all users or of one; a report for each of them.

    Args:
        spared: whether a user's rows are only looked at; None for a SHARED table's.
    """
    log = warehouse.log(table)
    view = log.view(None if user is None else {user})
    pending = view.pending if user is None else view.pending_of({user})
    garbled = log.garbled([each for rows in pending.values() for each in rows.ranges])
    found = []
    for name in sorted({each.user for each in garbled}):
        theirs = [each for each in garbled if each.user == name]
        reason = f"{garbled[theirs[0]].message}; what no flush has taken of them is lost"
        lost = sum(each.rows for each in theirs)
        planned = RepairReport(
            Scope(table.name, name or None), "planned", "log", reason, rows_lost=lost, writers_uncertain=writers_in_doubt(log)
        )
        if not spared(name or None):
            log.leave_out_chunks(theirs)
            planned = planned.ended("done")
        found.append(planned)
    return found


def writers_in_doubt(log: TableLog) -> tuple[UncertainWriter, ...]:
    """All writers with an identity, of which there may be others: parts of the log are lost."""
    known = (UncertainWriter(key, last.number) for key, last in log.last_batches().items())
    return (*known, UncertainWriter(ANY, None))


def behind(
    warehouse: Warehouse, table: Table, position: int, watermarks: Mapping[str, int], *, lost: bool, dry_run: bool
) -> list[RepairReport]:
    """Cuts the log after a position.

    Args:
        lost: whether the log ends before it: what was appended up to there is in the tables, but not who appended it.
        watermarks: up to which `_seq` each user's rows are in the user's table.
    """
    reason = f"it goes on behind position {position}: all up to there was settled" if position > NOTHING else "it goes on anew"
    planned = RepairReport(Scope(table.name, None), "planned", "log", f"{reason}; every subscription ends")
    log = warehouse.log(table)
    if lost:
        planned = replace(planned, writers_uncertain=writers_in_doubt(log))
    if dry_run:
        return [planned]
    log.jump(position, watermarks, lost=lost)
    return [planned.ended("done")]


# Repairs the ledger of a pipeline: goes on behind what its tables remember, and without the runs that are lost.
#
# Of each object it is not known then with which ETag it was taken, so it is taken again, in place of its rows.


def mend_ledger(warehouse: Warehouse, catalog: Catalog, pipeline: Pipeline, *, dry_run: bool) -> list[RepairReport]:
    """Returns one report, or none where nothing is lost of the ledger, and its tables are certain of what was taken.

    Call it when the pipeline's tables are repaired.
    """
    ledger, scope = Ledger(warehouse.state, pipeline.id), Scope(pipeline.table, None)
    try:
        memories = memories_of(warehouse, catalog, pipeline)
        # Behind the tables' own repair: their memory is what the ledger is compared with.
        faults = faults_of(ledger, memories.landed, ledger.cut_off())
        if not faults:
            return []
        planned = RepairReport(scope, "planned", "ledger", f"{faults.summary}; each object is taken again, in place of its rows")
        if dry_run:
            return [planned]
        give_up(ledger, faults)
    except Corrupt as error:
        return [] if dry_run else [RepairReport(scope, "failed", "ledger").failed(fault_of(error))]
    except LakewardenError as error:
        return [RepairReport(scope, "failed", "ledger").failed(fault_of(error))]
    return [planned.ended("done")]
