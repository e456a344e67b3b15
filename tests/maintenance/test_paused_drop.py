"""A drop that stops right behind the change that hides its table, while others end it and begin another table there."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.changes.leases import give_back
from lakewarden.errors import Conflict
from lakewarden.storage.local import LocalObjects
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, strong

pytestmark = pytest.mark.disk

_LATE = {9: "late"}


def _others(uri: str) -> None:
    with Lakehouse.open(uri) as other:
        [lease] = other.warehouse.catalog.read().leases.values()
        other.warehouse.catalog.change(give_back(lease))  # as whoever saw it expire takes it over
        other.drop_table(NOTES)
        make_notes(other).write(notes(_LATE), user="ann")
        assert [report.fault for report in other.flush()] == [None]


def test_a_drop_that_goes_on_behind_a_pause_takes_nothing_of_another_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, create, met = str(tmp_path / "w"), LocalObjects.create, list[str]()

    def creates(self: LocalObjects, key: str, data: bytes) -> None:
        create(self, key, data)
        if key.startswith("catalog/") and b'"dropping":true' in data and not met:
            met.append(key)
            _others(uri)

    with Lakehouse.open(uri) as lake:
        make_notes(lake).write(notes({1: "a"}), user="ann")
        lake.flush()
        monkeypatch.setattr(LocalObjects, "create", creates)
        with pytest.raises(Conflict, match="was given up"):
            lake.drop_table(NOTES)
        assert met
        table = lake.table(NOTES)
        assert strong(table, "ann") == eventual(table, "ann") == _LATE
