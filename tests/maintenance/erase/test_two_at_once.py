"""Two erasures at once: one sleeps before each of its writes in turn, while the other is done and certified."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.catalog.access import Principal
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.catalog.state.erasures import ErasureRequest
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.maintenance.erase.run import erase
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.fanout import in_process

pytestmark = pytest.mark.disk

_ANN, _BOB, _EVE = "ann-7f3a", "bob-9c1e", "eve-5d2b"


class _Sleeper:
    """Calls `meanwhile` before a certain write of the state; counts them."""

    def __init__(self, patch: pytest.MonkeyPatch, root: str, at: int, meanwhile: Callable[[], None]) -> None:
        self.count = 0
        self._thread = threading.get_ident()
        self._root, self._at, self._meanwhile, self._asleep = f"{root}/_lakewarden", at, meanwhile, False
        for verb in ("create", "put", "delete"):
            patch.setattr(LocalObjects, verb, self._counted(getattr(LocalObjects, verb)))

    def _counted(self, verb: Callable[..., None]) -> Callable[..., None]:
        def counted(store: LocalObjects, key: str | Iterable[str], *more: bytes) -> None:
            keys = [key] if isinstance(key, str) else [*key]
            mine = threading.get_ident() == self._thread  # other threads write floors, which hold hashes alone, under a lock
            if store.uri == self._root and mine and not self._asleep:
                self.count += 1
                if self.count == self._at:
                    self._asleep = True
                    self._meanwhile()
                    self._asleep = False
            verb(store, key if isinstance(key, str) else keys, *more)

        return counted


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs, audit entries, plans, lists, tags and rows that name both users, and a third one who stays."""
    root = tmp_path_factory.mktemp("before") / "w"
    with Lakehouse.open(str(root)) as lake:
        lake.create_namespace("chat")
        columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
        table = lake.create_table("chat.notes", type="USER", columns=columns, primary_key=["id"])
        for text in ("cold", "cold"):
            table.write([{"user": user, "id": 1, "text": f"{text} of {user}"} for user in (_ANN, _BOB, _EVE)], user_column="user")
            lake.flush()
        table.write([{"user": user, "id": 2, "text": f"hot of {user}"} for user in (_ANN, _BOB, _EVE)], user_column="user")
        for user in (_ANN, _BOB):
            lake.tag("chat.notes", f"before-{user[:3]}", user=user)
            table.lease(user=user, seconds=3600)
        warehouse = lake.warehouse
        audit = AuditLog(warehouse.state, warehouse.clock, warehouse.new_id)
        audit.note(Principal(_ANN, "dba"), "EXECUTE_AS", f"user:{_BOB}", subject=_BOB)
        jobs = JobLog(warehouse.state, warehouse.clock, warehouse.new_id)
        message = f"chat.notes[{_ANN}] and chat.notes[{_BOB}] were done"
        jobs.keep("export", "UE-0", warehouse.clock(), {"user": _BOB}, "completed", message)
        queued = jobs.enqueue("flush", {"tables": "chat.notes"})
        jobs.beat(jobs.claim(queued, "node"), message)
        lake.plan("flush", "chat.notes")
    return root


def _erase(lake: Lakehouse, user: str) -> None:
    warehouse = lake.warehouse
    jobs = JobLog(warehouse.state, warehouse.clock, warehouse.new_id)
    request = ErasureRequest(user, (), "a test", deep=False)
    made = erase(warehouse, lambda work, items: in_process(work, items, lambda _done: None), jobs, request, f"UC-{user[:3]}")
    assert made.result == "complete"


def _hits(root: Path, needle: str) -> list[str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return [str(path.relative_to(root)) for path in files if needle.encode() in path.read_bytes()]


def _both(root: Path, at: int) -> int:
    """Erases both; returns how many writes the first one had."""

    def meanwhile() -> None:
        with Lakehouse.open(str(root)) as other:
            _erase(other, _ANN)

    with pytest.MonkeyPatch.context() as patch, Lakehouse.open(str(root)) as lake:
        sleeper = _Sleeper(patch, str(root), at, meanwhile)
        _erase(lake, _BOB)
        return sleeper.count


@pytest.mark.slow
@pytest.mark.parametrize("each", [5, pytest.param(1, marks=pytest.mark.night)])
def test_an_id_stays_away_wherever_another_erasure_slept(before: Path, tmp_path: Path, each: int) -> None:
    """Before each fifth write of the state, and at night before each."""
    whole = tmp_path / "whole"
    shutil.copytree(before, whole)
    assert any("plans/" in hit for hit in _hits(whole, _ANN))
    count = _both(whole, 0)
    assert count > 40
    assert _hits(whole, _ANN), "she is there still"
    for at in range(1, count + 1, each):
        root = tmp_path / f"w{at}"
        shutil.copytree(before, root)
        _both(root, at)
        assert (at, _hits(root, _ANN), _hits(root, _BOB)) == (at, [], [])
        with Lakehouse.open(str(root)) as lake:
            assert lake.table("chat.notes").read(user=_EVE).num_rows == 2
            warehouse = lake.warehouse
            assert len(JobLog(warehouse.state, warehouse.clock, warehouse.new_id).newest()) >= 2
            assert len(AuditLog(warehouse.state, warehouse.clock, warehouse.new_id).newest()) >= 1
        shutil.rmtree(root)
