"""A check asks delta-rs, too, and fails where it reads another table than we do; a quick check does not."""

from __future__ import annotations

import json

import pytest

from lakewarden import Lakehouse
from lakewarden.delta.replay.log_objects import commit_name
from lakewarden.maintenance.check.scope import SECOND_OPINION, Finding
from lakewarden.storage.location import local_path
from lakewarden.storage.open import open_store
from tests.fixtures.lakes import NOTES, make_notes, notes
from tests.maintenance.flush.test_kept import _target

_WHO = "ann"


def _opinions(lake: Lakehouse, *, quick: bool = False) -> list[Finding]:
    return [one for one in lake.check(quick=quick) if one.check == SECOND_OPINION]


@pytest.mark.slow
@pytest.mark.both_stores
def test_what_the_two_readers_read_is_compared(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        table = make_notes(lake)
        for number in range(11):  # a checkpoint among them
            table.write(notes({number: "a"}), user=_WHO)
            lake.flush(NOTES)
        (found,) = _opinions(lake)
        assert (found.passed, found.message) == (True, "")
        assert _opinions(lake, quick=True) == []
        _remove_by_absolute_path(lake)
        (found,) = _opinions(lake)
        assert (found.passed, found.code) == (False, "CORRUPT")
        assert found.message.startswith("version 11 has 1 live files by delta-rs alone, as batch-")
        assert all(one.passed for one in lake.check(quick=True)), "it looks at what failed, and not by delta-rs"
        (reason,) = {one.reason for one in lake.status() if one.user == _WHO}
        assert "live files by delta-rs alone" in reason, "so what failed stays known"


def _remove_by_absolute_path(lake: Lakehouse) -> None:
    """As another program may, and as delta-rs misreads: it compares spellings."""
    target = _target(lake)
    store = open_store(target.location)
    path = next(found.key for found in store.list("") if found.key.endswith(".parquet") and "/" not in found.key)
    place = target.uri if local_path(target.uri) is None else f"file://{target.uri}"
    gone = {"path": f"{place}/{path}", "deletionTimestamp": 1, "dataChange": True}
    store.create(commit_name(11), json.dumps({"remove": gone}).encode())
