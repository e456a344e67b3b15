"""Compact: folds each scope's newest small files into one."""

from __future__ import annotations

from lakewarden.catalog.model import Table
from lakewarden.operations.compact.scope import CompactOptions
from lakewarden.operations.procedures.maintenance import Maintenance
from lakewarden.operations.upkeep.needs import Need, to_compact
from lakewarden.specs import Request
from lakewarden.warehouse import Warehouse


class Compact(Maintenance):
    def options(self, warehouse: Warehouse, request: Request) -> CompactOptions:
        return CompactOptions(_ratio(request), request.where or "")

    def need(self, warehouse: Warehouse, request: Request, table: Table) -> Need | None:
        return None if request.where else to_compact(warehouse, table, _ratio(request), paced=request.scheduled)


def _ratio(request: Request) -> float | None:
    """What is said; else the table's own for what runs by itself, and none for others, which take all that Storage Tiers' rule
    takes."""
    return request.ratio if request.ratio is not None else None if request.scheduled else 0.0


PROCEDURE = Compact()
