"""Optimize: packs each scope's files to the target size, or clusters them by columns."""

from __future__ import annotations

from lakewarden.catalog.model import Table
from lakewarden.catalog.operations import Request
from lakewarden.maintenance.optimize.scope import OptimizeOptions
from lakewarden.maintenance.procedures.maintenance import TableMaintenance, ratio_of
from lakewarden.maintenance.upkeep.needs import Need, to_optimize
from lakewarden.tables.warehouse import Warehouse


class OptimizeProcedure(TableMaintenance):
    def options(self, warehouse: Warehouse, request: Request) -> OptimizeOptions:
        size = request.target_file_size
        return OptimizeOptions(request.zorder, where=request.where or "", target_file_size=size, ratio=ratio_of(request))

    def need(self, warehouse: Warehouse, request: Request, table: Table) -> Need | None:
        every = request.zorder or request.where or request.target_file_size
        return None if every else to_optimize(warehouse, table, ratio_of(request), paced=request.scheduled)


PROCEDURE = OptimizeProcedure()
