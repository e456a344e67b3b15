"""Relays that run by themselves beside other work, in any number of processes: one publishes a topic, the others stand by.

A publisher that opens fences the one before, so two that both publish would take a topic from each other again and again. Who has
no publisher looks how far the topic is, which fences none, and opens one where the topic lacks changes and does not move.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Protocol

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Table
from lakewarden.errors import FencedPublisher, LakewardenError, Transient
from lakewarden.ingest.topic_report import RelayReport


class Looking(Protocol):
    """A `Relay`, or what tells how far one is."""

    def look(self) -> RelayReport: ...


@dataclass(frozen=True)
class RelayOutcome:
    """What a look did for one table: its report, or what ended its relay."""

    table: TableName
    report: RelayReport | None
    error: LakewardenError | None = None


def outcomes_of(tables: Iterable[Table], look: Callable[[str], RelayReport]) -> list[RelayOutcome]:
    """A look at each of the tables, by their names. An error of one table is its own."""
    found = []
    for table in sorted(tables, key=lambda table: table.name):
        try:
            found.append(RelayOutcome(table.name, look(str(table.name))))
        except LakewardenError as error:
            found.append(RelayOutcome(table.name, None, error))
    return found


PUBLISHING_SECONDS = 1.0
"""Between the looks of the process that publishes, and of the others at a topic that lacks changes."""
STANDBY_SECONDS = 5.0
"""Between the looks of the others at a topic that lacks none."""
NO_TOPIC_SECONDS = 10.0
"""Between looks at the catalog, where no table has a topic."""
STILL_SECONDS = 3.0
"""A topic that lacks changes and has not moved for so long has no publisher."""
_LONGEST_BACKOFF = 60.0


@dataclass
class _Watch:
    """One table, as this process has it."""

    relay: Looking | None = None
    opened: ExitStack = field(default_factory=ExitStack)
    seq: int | None = None
    still_since: float | None = None
    """Since when the topic lacks changes and stands at `seq`."""
    next_look: float = 0.0
    failures: int = 0
    said: str = ""
    """The last error that was reported: the same one is not reported again."""

    def close(self) -> None:
        self.relay, self.still_since = None, None
        with suppress(LakewardenError):  # what it had open ends by itself
            self.opened.pop_all().close()


@dataclass(eq=False)
class BackgroundRelays:
    """Relays that may publish beside those of other processes; `close` closes the publishers. For one thread."""

    tables: Callable[[], Iterable[Table]]
    open: Callable[[Table], AbstractContextManager[Looking]]
    status: Callable[[Table], RelayReport]
    monotonic: Callable[[], float] = time.monotonic
    _watched: dict[str, _Watch] = field(default_factory=dict)

    def look(self) -> list[RelayOutcome]:
        """Publishes what is due. Returns what was published, and errors that are new: what failed is retried."""
        tables = {table.id: table for table in self.tables()}
        for gone in self._watched.keys() - tables.keys():
            self._watched.pop(gone).close()
        found = [self._look(table, self._watched.setdefault(id_, _Watch())) for id_, table in tables.items()]
        return [each for each in found if each is not None]

    def pause(self) -> float:
        """Seconds until there is something to look at."""
        if not self._watched:
            return NO_TOPIC_SECONDS
        return max(0.0, min(each.next_look for each in self._watched.values()) - self.monotonic())

    def close(self) -> None:
        while self._watched:
            self._watched.popitem()[1].close()

    def _look(self, table: Table, watch: _Watch) -> RelayOutcome | None:
        now = self.monotonic()
        if now < watch.next_look:
            return None
        try:
            report = self._publish(watch) if watch.relay is not None else self._stand_by(table, watch, now)
        except FencedPublisher:  # another process publishes
            watch.close()
            watch.next_look = now + STANDBY_SECONDS
            return None
        except LakewardenError as error:
            return self._failed(table, watch, now, error)
        watch.failures, watch.said = 0, ""
        due = watch.relay is not None or report.lag
        watch.next_look = now + (PUBLISHING_SECONDS if due else STANDBY_SECONDS)
        return RelayOutcome(table.name, report) if report.messages else None

    def _publish(self, watch: _Watch) -> RelayReport:
        assert watch.relay is not None
        return watch.relay.look()

    def _stand_by(self, table: Table, watch: _Watch, now: float) -> RelayReport:
        report = self.status(table)
        if not report.lag or report.seq != watch.seq or watch.still_since is None:
            watch.seq, watch.still_since = report.seq, now if report.lag else None
            return report
        if now - watch.still_since < STILL_SECONDS:
            return report
        with ExitStack() as opening:
            watch.relay = opening.enter_context(self.open(table))
            watch.opened = opening.pop_all()
        return self._publish(watch)

    def _failed(self, table: Table, watch: _Watch, now: float, error: LakewardenError) -> RelayOutcome | None:
        watch.close()
        watch.failures += 1
        backoff = 2.0**watch.failures if isinstance(error, Transient) else _LONGEST_BACKOFF
        watch.next_look = now + min(_LONGEST_BACKOFF, backoff)
        if error.message == watch.said:
            return None
        watch.said = error.message
        return RelayOutcome(table.name, None, error)
