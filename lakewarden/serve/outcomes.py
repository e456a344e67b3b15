"""Finds out what became of a keyed write without an answer: the log and Delta's commits carry its key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from lakewarden.base.clock import to_millis
from lakewarden.base.scope import TableName
from lakewarden.base.write_key import PARAMETER, Trace
from lakewarden.catalog.model import Table
from lakewarden.delta.scope import open_scope
from lakewarden.delta.timeline import walk
from lakewarden.sql.statements.base import OnTable, Statement
from lakewarden.storage.open import open_store
from lakewarden.tables.warehouse import Warehouse

_BEFORE = timedelta(days=2)
"""Commits that say to be so much older than the request are not its: clocks differ by less."""


class Fate(Enum):
    DONE = "was done"
    PARTLY = "was done in part: some of its rows are in the table"
    NOT_DONE = "was not done"
    OPEN = "left nothing so far, and may still be under way"
    UNKNOWN = "left nothing that says whether it was done"


@dataclass(frozen=True)
class StatementOutcome:
    """What became of one statement of a request. `rows` where it was done."""

    fate: Fate
    rows: int = 0
    version: int | None = None
    """The version of the Delta table that it committed, if it did."""


Places = Callable[[], Sequence[TableName | None]]
"""The table that each statement of a request writes rows to; None where it writes none."""


def places_of(statements: Sequence[Statement], namespace: str | None) -> list[TableName | None]:
    """Of statements that were parsed."""
    return [_place(each, namespace) for each in statements]


def _place(statement: Statement, namespace: str | None) -> TableName | None:
    if not isinstance(statement, OnTable):
        return None
    place = statement.table.namespace or namespace
    return None if place is None else TableName(place, statement.table.name)


@dataclass(frozen=True)
class Outcomes:
    """Looks into the tables of one warehouse."""

    warehouse: Warehouse

    def of(self, key: str, place: TableName | None, since: datetime, *, over: bool) -> StatementOutcome:
        """What became of a statement.

        Args:
            key: as what it wrote carries it.
            since: when the request began, by the store's clock.
            over: whether none of its puts can begin any more.
        """
        table = None if place is None else self.warehouse.catalog.read().tables.get(place)
        if table is None:
            return StatementOutcome(Fate.UNKNOWN)
        found = self._in_delta(key, table, since) if table.type == "SHARED" else None
        if found is not None:
            return found
        log = self.warehouse.log(table)
        trace = log.trace(key)
        if not trace.found and over and table.schema.keyed:
            log.take_position()  # where a put may still be on its way to
            trace = log.trace(key)
        return self._of_log(trace, table, over=over)

    def _of_log(self, trace: Trace, table: Table, *, over: bool) -> StatementOutcome:
        if trace.found:
            return StatementOutcome(Fate.DONE if trace.whole else Fate.PARTLY, trace.rows)
        if not over:
            return StatementOutcome(Fate.OPEN)
        through_log = table.type != "SHARED"  # else a commit may still be on its way
        return StatementOutcome(Fate.NOT_DONE if through_log and trace.certain else Fate.UNKNOWN)

    def _in_delta(self, key: str, table: Table, since: datetime) -> StatementOutcome | None:
        target = self.warehouse.target_of(self.warehouse.catalog.read(), table, None)
        opened = open_scope(target)
        if opened is None:
            return None
        for entry in walk(open_store(target.location), opened.version):
            if entry.stamp is not None and entry.stamp.parameters.get(PARAMETER) == key:
                metrics = entry.stamp.metrics
                return StatementOutcome(Fate.DONE, sum(metrics.get(name, 0) for name in _ROWS), entry.version)
            if entry.at < to_millis(since - _BEFORE):
                return None
        return None


_ROWS = (
    "numOutputRows",
    "numUpdatedRows",
    "numDeletedRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
)
"""What a commit says of the rows that a statement changed."""
