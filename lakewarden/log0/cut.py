"""Cuts: versions of what is settled. The newest one counts; a settled row is in its scope's Delta table for good."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewarden.errors import Corrupt
from lakewarden.log0 import layout
from lakewarden.log0.position import START
from lakewarden.storage.objects import ObjectStore


@dataclass(frozen=True)
class Cut:
    """Everything up to position `upto` is settled, but for the rows in `carry`; of some users more (`settled`).

    `settled` maps a user to the last `_seq` that is settled beyond `upto`: a flush of one scope need not move the others.
    """

    version: int = -1
    upto: int = START
    carry: tuple[str, ...] = ()
    settled: Mapping[str, int] = field(default_factory=dict)
    sealed: bool = False
    """The table was dropped: nothing may be appended any more."""

    def encode(self) -> bytes:
        content = {"upto": self.upto, "carry": list(self.carry), "settled": dict(self.settled), "sealed": self.sealed}
        return json.dumps(content, ensure_ascii=False).encode()


def newest_version(store: ObjectStore, log_id: str) -> int:
    """-1 where there is no cut."""
    return max((layout.number(found.key) for found in store.list(layout.cuts(log_id))), default=-1)


def newest_cut(store: ObjectStore, log_id: str) -> Cut:
    """Raises:
    Missing: a newer one came and this one went while it was read.
    """
    version = newest_version(store, log_id)
    if version < 0:
        return Cut()
    key = layout.cut(log_id, version)
    text = store.get(key)
    try:
        content = json.loads(text)
        return Cut(version, content["upto"], tuple(content["carry"]), content["settled"], content["sealed"])
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"the cut {key} in {store.uri} can't be read: {text[:80]!r}") from error
