"""The services that statements use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.sql.query_engine.engine import QueryEngine
from lakewarden.sql.sessions import Sessions
from lakewarden.warehouse import Warehouse

if TYPE_CHECKING:
    from lakewarden.execution.operator import Operator
    from lakewarden.live.feed import Feeds


@dataclass(frozen=True)
class Services:
    """Created once for an open warehouse; all its sessions share them."""

    warehouse: Warehouse
    engine: QueryEngine
    sessions: Sessions
    operator: Callable[[], Operator]
    """Runs operations as jobs. A function, since it imports all operations, which a query does not need."""
    feeds: Callable[[], Feeds]
    """One reader of each table's log, for all subscriptions of the process. A function for the same reason."""
