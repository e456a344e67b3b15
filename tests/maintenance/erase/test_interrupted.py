"""What readers see of a user whose erasure was interrupted, at each of its writes: all rows of a scope as they were, or none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden import Column, Lakehouse
from lakewarden.catalog.state.erasures import ErasureRequest
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.errors import BeingErased, Ended, LakewardenError, NotFound
from lakewarden.maintenance.erase.run import erase
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.fanout import in_process

pytestmark = pytest.mark.disk

_NAME = "chat.notes"
_FULL = {1: "newest", 2: "hot", 3: "cold"}
_COLD = {1: "newer", 3: "cold"}


class Died(BaseException):
    """The process was killed here."""


class _Writes:
    """Counts what is written below a directory, and dies before a certain write."""

    def __init__(self, patch: pytest.MonkeyPatch, root: str, dies_at: int) -> None:
        self.count = 0
        for verb in ("create", "put", "write", "replace", "delete"):
            patch.setattr(LocalObjects, verb, self._counted(getattr(LocalObjects, verb), root, dies_at))

    def _counted(self, verb: Callable[..., None], root: str, dies_at: int) -> Callable[..., None]:
        def counted(store: LocalObjects, key: str | Iterable[str], *more: bytes) -> None:
            if not store.uri.startswith(root):
                return verb(store, key, *more)
            for each in [key] if isinstance(key, str) else [*key]:
                self.count += 1
                if self.count == dies_at:
                    raise Died
                verb(store, each if isinstance(key, str) else [each], *more)
            return None

        return counted


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with an older and a newer version of a row in its table, and the newest in its log."""
    root = tmp_path_factory.mktemp("before") / "w"
    with Lakehouse.open(str(root)) as lake:
        lake.create_namespace("chat")
        columns = [Column("id", "BIGINT"), Column("text", "TEXT"), Column("photo", "FILE")]
        table = lake.create_table(_NAME, type="USER", columns=columns, primary_key=["id"])
        for rows in ({1: "old", 3: "cold"}, {1: "newer"}, {1: "newest", 2: "hot"}):
            for user in ("ann", "bob"):
                table.write([{"id": key, "text": text} for key, text in rows.items()], user=user)
            if "hot" not in rows.values():
                lake.flush()
        table.put_file({"id": 2, "text": "hot"}, "photo", b"pixels", name="a.png", user="ann")
    return root


def _erase(lake: Lakehouse, job_id: str) -> None:
    warehouse = lake.warehouse
    jobs = JobLog(warehouse.state, warehouse.clock, warehouse.new_id)
    request = ErasureRequest("ann", (), "a test", deep=False)
    erase(warehouse, lambda work, items: in_process(work, items, lambda _done: None), jobs, request, job_id)


def _interrupted(root: Path, dies_at: int) -> int | None:
    """How many writes there were, if it came to its end."""
    with pytest.MonkeyPatch.context() as patch, Lakehouse.open(str(root)) as lake:
        writes = _Writes(patch, str(root), dies_at)
        try:
            _erase(lake, "UC-1")
        except Died:
            return None
        return writes.count


def _texts(rows: list[dict[str, object]]) -> dict[object, object]:
    return {row["id"]: row["text"] for row in rows}


def _check(root: Path) -> bool:
    """Whether the rows are shown. All readers agree on that."""
    with Lakehouse.open(str(root)) as lake:
        table = lake.table(_NAME)
        strong = _texts(table.read(user="ann").to_pylist())
        assert strong in (_FULL, {}), strong
        shown = bool(strong)
        assert _texts(table.read(user="ann", freshness="eventual").to_pylist()) == (_COLD if shown else {})
        (rows,) = lake.sql(f"SELECT id, text FROM {_NAME}", user="ann")
        assert _texts(rows.to_pylist()) == strong  # type: ignore[union-attr]
        _check_past(lake, shown=shown)
        with suppress(BeingErased, Ended):
            assert _texts(table.changes(user="ann").rows.to_pylist()) == strong
        if not shown:
            with pytest.raises(NotFound):
                table.get_file({"id": 2}, "photo", user="ann")
            with suppress(NotFound, BeingErased):  # behind its end, where a note alone is left, there is an empty table
                assert [each.rows for each in lake.export("ann", str(root.parent / "out")).tables] == [0]
        assert _texts(table.read(user="bob").to_pylist()) == _FULL
        with suppress(LakewardenError):
            lake.flush()
        assert bool(_texts(table.read(user="ann").to_pylist())) == shown, "a flush brings nothing back"
        _erase(lake, "UC-2")
        assert table.read(user="ann").num_rows == 0
        assert _texts(table.read(user="bob").to_pylist()) == _FULL
    assert not [path for path in root.rglob("*") if path.is_file() and b"newer" in path.read_bytes() and "ann" in path.parts]
    return shown


def _check_past(lake: Lakehouse, *, shown: bool) -> None:
    table, place = lake.table(_NAME), f"{lake.warehouse.uri}/data/chat/notes/ann"
    moments = [entry.timestamp for entry in lake.table(_NAME).history(user="bob")]
    for as_of in (*({"version": version} for version in range(3)), *({"timestamp": moment} for moment in moments)):
        found = None
        with suppress(NotFound):
            found = _texts(table.read(user="ann", **as_of).to_pylist())  # type: ignore[arg-type]
        assert shown or not found, found
    if DeltaTable.is_deltatable(place):
        rows = DeltaTable(place).to_pyarrow_table(columns=["id", "text"]).to_pylist()
        assert _texts(rows) == (_COLD if shown else {})


@pytest.mark.slow
@pytest.mark.parametrize("each", [4, pytest.param(1, marks=pytest.mark.night)])
def test_readers_see_all_rows_or_none_wherever_an_erasure_stops(before: Path, tmp_path: Path, each: int) -> None:
    """At each fourth write, and at night at each."""
    whole = tmp_path / "whole"
    shutil.copytree(before, whole)
    count = _interrupted(whole, 0)
    assert count is not None
    assert count > 30
    seen = []
    for dies_at in range(1, count + 1, each):
        root = tmp_path / f"w{dies_at}"
        shutil.copytree(before, root)
        assert _interrupted(root, dies_at) is None
        seen.append(_check(root))
        shutil.rmtree(root)
    assert seen == sorted(seen, reverse=True), "what is hidden stays hidden"
    assert {*seen} == {True, False}
