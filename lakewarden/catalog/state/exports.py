"""Records which users were exported where, by keyed hash: an erasure has to find the copies that Lakewarden made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from lakewarden.errors import Corrupt
from lakewarden.storage.objects import ObjectStore

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
        self._store.create(_key(record), json.dumps(asdict(record), ensure_ascii=False).encode())

    def of(self, mark: str) -> list[ExportRecord]:
        """Returns the exports of one user.

        Raises:
            Corrupt: a record cannot be read.
        """
        return [_decoded(found.key, self._store.get(found.key)) for found in self._store.list(f"{ROOT}/{mark}")]

    def forget(self, records: Iterable[ExportRecord]) -> None:
        self._store.delete([_key(record) for record in records])


def _key(record: ExportRecord) -> str:
    return f"{ROOT}/{record.mark}/{record.job_id}"


def _decoded(key: str, data: bytes) -> ExportRecord:
    try:
        content = json.loads(data)
        return ExportRecord(**{**content, "tables": tuple(content["tables"])})
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{key} is not a record of an export: {data[:80]!r}") from error
