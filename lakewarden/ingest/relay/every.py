"""The relays of all tables that have a topic of their own, in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Table
from lakewarden.errors import LakewardenError, Transient
from lakewarden.ingest.relay.report import RelayReport


class Looking(Protocol):
    """A `Relay`, or what tells how far one is."""

    def look(self) -> RelayReport: ...


@dataclass(frozen=True)
class RelayOutcome:
    """What a look did for one table: its report, or what ended its relay."""

    table: TableName
    report: RelayReport | None
    error: LakewardenError | None = None


class Relays:
    """Created by `relaying_every`. For one thread."""

    def __init__(self, tables: Callable[[], Iterable[Table]], open_: Callable[[Table], AbstractContextManager[Looking]]) -> None:
        self._tables = tables
        self._open = open_
        self._opened: dict[str, tuple[Looking, ExitStack]] = {}
        self._ended: set[str] = set()

    def look(self) -> list[RelayOutcome]:
        """One look for each table, by name; those that were created since the last one are among them.

        An error of one table is its own: where it may go away, the next look opens its relay again; else the relay has ended.
        """
        tables = {table.id: table for table in sorted(self._tables(), key=lambda table: table.name)}
        for gone in self._opened.keys() - tables.keys():
            self._close(gone)
        return [self._look(table) for table in tables.values() if table.id not in self._ended]

    def close(self) -> None:
        for each in list(self._opened):
            self._close(each)

    def _look(self, table: Table) -> RelayOutcome:
        try:
            if table.id not in self._opened:
                with ExitStack() as opening:
                    relay = opening.enter_context(self._open(table))
                    self._opened[table.id] = relay, opening.pop_all()
            return RelayOutcome(table.name, self._opened[table.id][0].look())
        except LakewardenError as error:
            self._close(table.id)
            if not isinstance(error, Transient):
                self._ended.add(table.id)
            return RelayOutcome(table.name, None, error)

    def _close(self, table_id: str) -> None:
        if table_id in self._opened:
            self._opened.pop(table_id)[1].close()


@contextmanager
def relaying_every(
    tables: Callable[[], Iterable[Table]], open_: Callable[[Table], AbstractContextManager[Looking]]
) -> Iterator[Relays]:
    """Opens the relay of each table when it is first looked at, and closes them all in the end.

    Args:
        tables: those that there are now, which change.
        open_: opens a table's relay.
    """
    relays = Relays(tables, open_)
    try:
        yield relays
    finally:
        relays.close()
