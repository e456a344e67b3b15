"""The implementations of `TableLog` that the conformance suite runs through: a second one is one more line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.log.log_reader import LogReader
from lakewarden.log.logs import Logs, reader_of
from lakewarden.log.table_log import LogTerms, TableLog
from lakewarden.storage.local import LocalObjects


@dataclass(frozen=True)
class Implementation:
    """Opens a log by the place of the state and its id, as a process does, or for reading, as a task does."""

    open: Callable[[str, str, LogTerms], TableLog]
    reader: Callable[[str, str], LogReader]


IMPLEMENTATIONS = {
    "objects": Implementation(
        lambda place, log_id, terms: Logs(LocalObjects(place)).of(log_id, lambda: terms),
        lambda place, log_id: reader_of(LocalObjects(place), log_id),
    )
}
