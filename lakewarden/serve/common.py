"""What the protocols of one server process have in common: the warehouse, who may, how much of it, and the figures."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.base.clock import NewId
from lakewarden.client import Lakehouse
from lakewarden.serve.allowance import Allowance
from lakewarden.serve.authority import Authority
from lakewarden.serve.figures import Figures
from lakewarden.serve.idempotency import Writes
from lakewarden.serve.outcomes import Outcomes


@dataclass(frozen=True)
class Common:
    lake: Lakehouse
    authority: Authority
    allowance: Allowance
    figures: Figures
    writes: Writes

    @property
    def new_id(self) -> NewId:
        return self.lake.warehouse.new_id

    @classmethod
    def of(cls, lake: Lakehouse) -> Common:
        """For an open warehouse, which stays the caller's to close."""
        warehouse = lake.warehouse
        allowance = Allowance(warehouse.settings.serve, warehouse.clock)
        return cls(lake, Authority(warehouse), allowance, Figures(), Writes(warehouse.state, Outcomes(warehouse)))
