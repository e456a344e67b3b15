"""What statements work with."""

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
    """Made once for an open warehouse; every session over it has the same."""

    warehouse: Warehouse
    engine: QueryEngine
    sessions: Sessions
    operator: Callable[[], Operator]
    """Runs operations as jobs. Called for, since it brings all of them, which a query need not wait for."""
    feeds: Callable[[], Feeds]
    """One reading of each table's log, for all subscriptions of the process; called for, as the operator is."""
