"""Records which users were exported where, by keyed hash: an erasure has to find the copies that Lakewarden made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.sums import kept_as

ROOT = "exports"


@dataclass(frozen=True)
class ExportRecord:
    """One export. It is recorded before the first file is copied, so that an interrupted export is known too."""

    job_id: str
    mark: str
    target: str
    """URI, without credentials."""
    tables: tuple[str, ...]
    at: str
    """ISO 8601, by the exporter's clock; for people."""


class Exports:
    """The exports of one warehouse; `store` is rooted at its `_lakewarden/`."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def keep(self, record: ExportRecord) -> None:
        self._store.create(_key(record), msgspec.json.encode(record))

    def of(self, mark: str) -> list[ExportRecord]:
        """Returns the exports of one user.

        Raises:
            Corrupt: a record cannot be read.
        """
        keys = self._store.keys(f"{ROOT}/{mark}")
        return [kept_as(ExportRecord, self._store.get(key), f"{key} is not a record of an export") for key in keys]

    def forget(self, records: Iterable[ExportRecord]) -> None:
        self._store.delete([_key(record) for record in records])


def _key(record: ExportRecord) -> str:
    return f"{ROOT}/{record.mark}/{record.job_id}"
