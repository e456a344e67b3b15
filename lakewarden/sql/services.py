"""The services that statements use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.catalog.access import OPERATOR, Principal
from lakewarden.sql.query_engine.engine import QueryEngine
from lakewarden.sql.sessions import Sessions
from lakewarden.tables.warehouse import Warehouse

if TYPE_CHECKING:
    from lakewarden.maintenance.operator import Operator
    from lakewarden.tables.changes.log_reader import Feeds


@dataclass(frozen=True)
class Services:
    """Created once for an open warehouse; all its sessions share them."""

    warehouse: Warehouse
    engine: QueryEngine
    """In this process, for the operator."""
    workers: QueryEngine
    """In processes of their own, for every other session."""
    sessions: Sessions
    operator: Callable[[], Operator]
    """Runs operations as jobs. A function, since it imports all operations, which a query does not need."""
    feeds: Callable[[], Feeds]
    """One reader of each table's log, for all subscriptions of the process. A function for the same reason."""
    served: bool = False
    """Whether the sessions are opened over a network: then the bounds hold for every one of them, also for `root` as `system`."""

    def engine_for(self, principal: Principal) -> QueryEngine:
        return self.engine if self.trusts(principal) else self.workers

    def trusts(self, principal: Principal) -> bool:
        """Whether the operator opened the session: its statements run in this process, and its texts have no bounds."""
        return not self.served and principal.opener == OPERATOR
