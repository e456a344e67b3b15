"""Changes of a table as messages: keys in JSON, values in the format `debezium-json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import pyarrow as pa

from lakewarden.base.json_values import Json, json_row
from lakewarden.storage.kafka.publisher import Outgoing

ChangelogMode = Literal["upsert", "all"]
Row = Mapping[str, object]


@dataclass(frozen=True)
class MessageForm:
    """How the changes of one table become messages."""

    columns: tuple[str, ...]
    """Those that a row shows, in order; `_user` first where rows belong to users."""
    key: tuple[str, ...]
    """Those that identify a row; without any, messages have no key."""
    mode: ChangelogMode
    """`upsert`: no rows from before, and of a deleted row its key alone. `all`: the whole row before each change, too."""

    def key_of(self, row: Row) -> bytes | None:
        return msgspec.json.encode(self._part(row, self.key)) if self.key else None

    def created(self, row: Row) -> bytes:
        return _value(None, self._part(row, self.columns), "c")

    def updated(self, before: Row | None, after: Row) -> bytes:
        # a reader of this format takes an update without the row before for an error, so an upsert is a "c"
        if self.mode == "upsert" or before is None:
            return self.created(after)
        return _value(self._part(before, self.columns), self._part(after, self.columns), "u")

    def deleted(self, row: Row) -> bytes:
        shown = self.columns if self.mode == "all" else self.key
        return _value(self._part(row, shown), None, "d")

    def _part(self, row: Row, names: Sequence[str]) -> dict[str, Json]:
        return json_row({name: row[name] for name in names})


def messages(form: MessageForm, rows: pa.Table, kinds: Sequence[str], partitions: Sequence[int]) -> Iterator[Outgoing]:
    """One message for each change, in order.

    Args:
        rows: the columns of the form. The row before an update comes directly before the row after it, or not at all.
        kinds: `insert`, `update_preimage`, `update_postimage` or `delete`, a row each.
        partitions: of each row; that of an update's message is the later row's.
    """
    before: Row | None = None
    for row, kind, partition in zip(_rows(form, rows), kinds, partitions, strict=True):
        if kind == "update_preimage":
            before = row
            continue
        yield Outgoing(partition, form.key_of(row), _of_kind(form, kind, before, row))
        before = None


def _of_kind(form: MessageForm, kind: str, before: Row | None, row: Row) -> bytes:
    match kind:
        case "delete":
            return form.deleted(row)
        case "update_postimage":
            return form.updated(before, row)
        case _:
            return form.created(row)


def _rows(form: MessageForm, rows: pa.Table) -> Iterator[Row]:
    for batch in rows.select(list(form.columns)).to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _value(before: dict[str, Json] | None, after: dict[str, Json] | None, op: str) -> bytes:
    return msgspec.json.encode({"before": before, "after": after, "op": op})
