"""Compact: folds each scope's newest small files into one."""

from __future__ import annotations

from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Request
from lakewarden.maintenance.compact.scope import CompactOptions
from lakewarden.maintenance.procedures.maintenance import TableMaintenance, ratio_of
from lakewarden.maintenance.upkeep.needs import Need, to_compact
from lakewarden.tables.warehouse import Warehouse


class Compact(TableMaintenance):
    def options(self, warehouse: Warehouse, request: Request) -> CompactOptions:
        return CompactOptions(ratio_of(request), request.where or "")

    def need(self, warehouse: Warehouse, request: Request, table: Table) -> Need | None:
        return None if request.where else to_compact(warehouse, table, ratio_of(request), paced=request.scheduled)


PROCEDURE = Compact()
