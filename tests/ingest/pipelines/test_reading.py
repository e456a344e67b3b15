"""What becomes of objects that a store does not hand out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pytest

from lakewarden.catalog.state.ledger import OfferedObject
from lakewarden.errors import StorageRefused
from lakewarden.ingest.pipelines.reading import ObjectGone, Reading
from lakewarden.ingest.templates.template import Columns
from lakewarden.ingest.templates.worker import ObjectRows, ReadRejected
from lakewarden.storage.sources import LocalSource, SourceObject

ORDERS = SourceObject("orders.csv", 10, "1", datetime(2026, 11, 23, tzinfo=UTC))


@dataclass(frozen=True)
class Guarded:
    """A source that hands out no object, and lists them only `listed`."""

    listed: bool
    uri: str = "s3://bucket/uploads"

    def uploads(self, after: str = "", *, below: str = "") -> Iterator[SourceObject]:
        if not self.listed:
            raise StorageRefused(f"{self.uri}: no credentials, after {after!r}")
        return iter([ORDERS])

    def folders(self, below: str = "") -> tuple[str, ...]:
        raise StorageRefused(below)

    def look(self, key: str) -> SourceObject:
        raise StorageRefused(key)

    def open(self, uploaded: SourceObject) -> BinaryIO:
        raise StorageRefused(f"{uploaded.key} is forbidden")

    def prove(self, uploaded: SourceObject) -> None:
        raise StorageRefused(uploaded.key)


def never_read(*_: object) -> ReadRejected:
    raise AssertionError("nothing was opened that could be read")


def reading(source: Guarded, room: Path) -> Reading:
    return Reading(source, never_read, lambda one, numbers: [one(number) for number in numbers], room, [OfferedObject(ORDERS)])


def test_an_object_that_alone_is_forbidden_is_a_reject(tmp_path: Path) -> None:
    assert reading(Guarded(listed=True), tmp_path).rest({}, 0) == [ReadRejected("STORAGE_UNAVAILABLE", "orders.csv is forbidden")]


def test_a_store_that_refuses_everything_rejects_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageRefused, match="no credentials"):
        reading(Guarded(listed=False), tmp_path).rest({}, 0)


@pytest.mark.parametrize("change", ["replaced", "removed", "written to"])
def test_an_object_that_changes_while_it_is_read_is_not_taken_under_the_etag_that_was_listed(tmp_path: Path, change: str) -> None:
    room, path = tmp_path / "uploads", tmp_path / "uploads" / "orders.csv"
    room.mkdir()
    path.write_text("id\n1\n")
    source = LocalSource(str(room))
    (listed,) = source.uploads()

    def read(uploaded: SourceObject, _: Columns, ranges: Callable[[int, int], bytes], into: Path) -> ObjectRows:
        found = ranges(0, uploaded.size)
        if change == "replaced":
            (room / "next").write_text("id\n2\n3\n")
            (room / "next").rename(path)
        elif change == "removed":
            path.unlink()
        else:
            path.write_bytes(found + b"2\n")
        return ObjectRows(1, 0, {}, into)

    found = Reading(
        source, read, lambda one, numbers: [one(number) for number in numbers], tmp_path, [OfferedObject(listed)]
    ).rest({}, 0)
    assert [type(one) for one in found] == [ObjectGone]
