"""Repairs the ledger of a pipeline: goes on behind what its tables remember, and without the runs that are lost.

Of each object it is not known then with which ETag it was taken, so it is taken again, in place of its rows.
"""

from __future__ import annotations

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Catalog, Pipeline
from lakewarden.catalog.state.ledger import Ledger
from lakewarden.catalog.state.ledger_faults import faults_of, give_up
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.maintenance.repair.report import RepairReport
from lakewarden.tables.direct.identities import memories_of
from lakewarden.tables.fanout import fault_of
from lakewarden.tables.warehouse import Warehouse


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
