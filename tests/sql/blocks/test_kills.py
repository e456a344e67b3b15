"""A block whose process dies before each change of its COMMIT, or whose store answers no more: all of it is there, or nothing.

`LAKEWARDEN_BLOCKS` sets how many kills each kind of table takes (`make torture`: 100); each is at the next change, and what
the block does follows from its number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import Conflict, StorageUnavailable
from lakewarden.sql.results import ResultRows
from tests.ingest.kills import before_changes, dies_before_change
from tests.maintenance.steps import Died

pytestmark = pytest.mark.disk

_KILLS = int(os.environ.get("LAKEWARDEN_BLOCKS", "5"))
_SETTINGS = Settings(log=LogSettings(segment_max_rows=4))
"""So few that a block takes several objects, which one segment names."""
_KINDS = {
    "user": "USER TABLE {} (id BIGINT PRIMARY KEY, v TEXT)",
    "shared": "SHARED TABLE {} (id BIGINT PRIMARY KEY, v TEXT)",
    "imaged": "DYNAMIC TABLE {} (id BIGINT PRIMARY KEY, v TEXT) WITH ('log.changelog-mode' = 'all')",
    "stream": "STREAM TABLE {} (id BIGINT, v TEXT) WITH (TTL_SECONDS = 6000)",
}

_Model = dict[int, str]


def _rows(lake: Lakehouse, name: str) -> list[tuple[object, ...]]:
    found = lake.sql(f"SELECT id, v FROM {name} ORDER BY id")[-1]
    assert isinstance(found, ResultRows)
    return [(row["id"], row["v"]) for row in found.to_pylist()]


def _block(rng: Random, name: str, model: _Model, *, stream: bool) -> list[str]:
    """The statements of a block, which the model carries out as well."""
    texts = []
    for number in range(rng.choice((1, 2, 4))):
        live = sorted(model)
        act = rng.choice(("insert", "insert", "delete") if stream else ("insert", "upsert", "update", "delete"))
        if act == "insert" or not live:
            new = [key for key in rng.sample(range(100), rng.choice((1, 3, 12))) if key not in model]
            rows = dict.fromkeys(new or [max(model, default=0) + 1], f"inserted {number}")
            texts.append(f"INSERT INTO {name} VALUES " + ", ".join(f"({key}, '{text}')" for key, text in rows.items()))
            model |= rows
        elif act == "delete":
            gone = rng.choice(live)
            texts.append(f"DELETE FROM {name} WHERE id = {gone}")
            del model[gone]
        elif act == "update":
            least = rng.choice(live)
            texts.append(f"UPDATE {name} SET v = 'updated {number}' WHERE id >= {least}")
            model |= {key: f"updated {number}" for key in live if key >= least}
        else:
            key = rng.choice((*live, 200))
            texts.append(f"INSERT INTO {name} VALUES ({key}, 'upserted {number}') ON CONFLICT (id) DO UPDATE SET v = excluded.v")
            model[key] = f"upserted {number}"
    return texts


@contextmanager
def _answers_no_more(patch: pytest.MonkeyPatch, number: int) -> Iterator[None]:
    """The store fails from its change of that number on, and comes back behind the block."""
    left = number

    def fail() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise StorageUnavailable("no answer")

    before_changes(patch, fail)
    yield


@pytest.mark.slow
@pytest.mark.parametrize("kind", _KINDS)
def test_a_block_whose_commit_died_is_there_or_not(tmp_path: Path, kind: str) -> None:
    uri, name, model, change, seen = str(tmp_path / "w"), "n.t", _Model(), 0, set[bool]()
    with Lakehouse.open(uri, settings=_SETTINGS) as lake:
        lake.sql(f"CREATE NAMESPACE n; CREATE {_KINDS[kind].format(name)}")
        lake.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
        lake.flush()
        model = {1: "a", 2: "b"}
    for kill in range(_KILLS):
        after = dict(model)
        texts = _block(Random(kill), name, after, stream=kind == "stream")
        died = _dies(uri, texts, change, fails=kill % 3 == 2)
        with Lakehouse.open(uri, settings=_SETTINGS) as lake:
            found = _rows(lake, name)
            assert found in (sorted(model.items()), sorted(after.items())), f"kill {kill}, before change {change}: {texts}"
            assert died or found == sorted(after.items())
            seen.add(found == sorted(after.items()))
            model = dict(found)  # type: ignore[arg-type]  # numbers and texts
            if kill % 4 == 3:
                lake.flush()
        change = change + 1 if died else 0
    assert True in seen
    with Lakehouse.open(uri, settings=_SETTINGS) as lake:
        assert not [finding for finding in lake.check() if not finding.passed]


def _dies(uri: str, texts: list[str], change: int, *, fails: bool) -> bool:
    """Whether COMMIT died, or failed, before its change of that number."""
    with pytest.MonkeyPatch.context() as patch, Lakehouse.open(uri, settings=_SETTINGS) as lake:
        session = lake.session(user="root", role="system")
        session.sql("; ".join(["BEGIN", *texts]))
        if not fails:
            dies_before_change(patch, change)
            try:
                session.sql("COMMIT")
            except Died:
                return True
            return False
        with _answers_no_more(patch, change):
            try:
                session.sql("COMMIT")
            except (StorageUnavailable, Conflict):
                assert not session.block.open
                return True
            return False
