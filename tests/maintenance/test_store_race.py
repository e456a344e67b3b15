"""Races that force the collision, from several processes, on disk and on a real object store.

`LAKEWARDEN_RACE` says how often each process commits; `make torture` takes 200, `make test` a few, `make test-night` more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from lakewarden import Lakehouse
from lakewarden.base.connection import Location
from lakewarden.catalog.changes.objects import add_namespace
from lakewarden.errors import Conflict
from lakewarden.storage.location import join
from lakewarden.storage.options import delta_options
from tests.fixtures.children import exit_statuses
from tests.fixtures.gate import often
from tests.fixtures.lakes import NOTES, check_second_opinions, make_notes, notes

_PROCESSES = 4
_WHO = "shared"
_FIRST = 80_000

pytestmark = [pytest.mark.both_stores("minio"), often("LAKEWARDEN_RACE", "commits", gate=3, night=16)]


@dataclass(frozen=True)
class Note:
    """Where a child leaves what was acknowledged to it."""

    path: Path

    def add(self, *words: object) -> None:
        with self.path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def read(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


def _scope_uri(lake: Lakehouse) -> str:
    return join(lake.warehouse.uri, f"data/chat/notes/{_WHO}")


def _delta(uri: str, version: int | None = None) -> DeltaTable:
    return DeltaTable(uri, version=version, storage_options=delta_options(Location(uri), os.environ) or None)


def _ids(uri: str, version: int | None = None) -> list[int]:
    """Sorted, as a reader that knows nothing of us finds them."""
    rows = pa.RecordBatchReader.from_stream(_delta(uri, version).scan(columns=["id"])).read_all()
    return sorted(id_ for id_ in rows.column("id").to_pylist() if id_ is not None)


def _write_and_flush(uri: str, worker: int, commits: int, acknowledged: Note) -> None:
    with Lakehouse.open(uri) as lake:
        table = lake.table(NOTES)
        for number in range(commits):
            id_ = worker * 10_000 + number
            table.write(notes({id_: f"by {worker}"}), user=_WHO)
            acknowledged.add(id_)
            for report in lake.flush(NOTES, user=_WHO):
                assert report.fault is None or report.fault.transient, report


@pytest.mark.slow
def test_every_acknowledged_commit_to_one_scope_is_there_once(
    warehouse_uri: str, tmp_path_factory: pytest.TempPathFactory, commits: int
) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        make_notes(lake)
        told = Note(tmp_path_factory.mktemp("notes") / "acknowledged")
        workers = [(_write_and_flush, warehouse_uri, worker, commits, told) for worker in range(_PROCESSES)]
        assert exit_statuses(workers, seconds=1800) == [0] * _PROCESSES
        lake.flush()
        expected = sorted(int(line) for line in told.read())
        assert len(expected) == _PROCESSES * commits
        assert _ids(_scope_uri(lake)) == expected
        assert check_second_opinions(lake)


def _change_catalog(uri: str, worker: int, commits: int, acknowledged: Note) -> None:
    with Lakehouse.open(uri) as lake:
        for number in range(commits):
            name = f"n{worker}_{number}"
            while True:
                with suppress(Conflict):  # so busy a catalog may refuse a change, which then is not there
                    lake.warehouse.catalog.change(lambda before, name=name: add_namespace(before, name, datetime.now(UTC)))  # type: ignore[misc]
                    break
            acknowledged.add(name)


@pytest.mark.slow
def test_every_acknowledged_change_of_the_catalog_is_there(
    warehouse_uri: str, tmp_path_factory: pytest.TempPathFactory, commits: int
) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        told = Note(tmp_path_factory.mktemp("notes") / "acknowledged")
        workers = [(_change_catalog, warehouse_uri, worker, commits, told) for worker in range(_PROCESSES)]
        assert exit_statuses(workers, seconds=1800) == [0] * _PROCESSES
        catalog = lake.warehouse.catalog.read()
        assert sorted(catalog.namespaces) == sorted(told.read())
        assert len(catalog.namespaces) == _PROCESSES * commits
        assert catalog.version >= _PROCESSES * commits


# Everything against everything, and a stranger among them


def _flush_on(uri: str, commits: int, acknowledged: Note) -> None:
    _write_and_flush(uri, 0, commits, acknowledged)


def _append_as_a_stranger(uri: str, commits: int, acknowledged: Note) -> None:
    """Plain delta-rs, which rebases its appends by itself."""
    with Lakehouse.open(uri) as lake:
        scope = _scope_uri(lake)
    for number in range(commits):
        id_ = 90_000 + number
        rows = pa.table({"id": [id_], "text": ["a stranger's"], "_seq": pa.array([None], pa.int64())})
        _append(scope, rows)
        acknowledged.add(id_)


def _append(uri: str, rows: pa.Table) -> None:
    while True:
        with suppress(CommitFailedError):  # a restore or rewrite came between, so it is not there: again
            write_deltalake(uri, rows, mode="append", storage_options=delta_options(Location(uri), os.environ) or None)
            return


def _maintain(uri: str, commits: int, name: str) -> None:
    with Lakehouse.open(uri) as lake:
        work: dict[str, Callable[[], object]] = {
            "compact": lambda: lake.compact(NOTES, user=_WHO),
            "optimize": lambda: lake.optimize(NOTES, user=_WHO, zorder=["id"]),
            "restore": lambda: lake.restore(NOTES, user=_WHO, version=_earlier(lake), dry_run=False),
        }
        for _ in range(commits):
            work[name]()


def _earlier(lake: Lakehouse) -> int:
    return max(0, _delta(_scope_uri(lake)).version() - 3)


@pytest.mark.slow
def test_operations_against_each_other_and_a_stranger(
    warehouse_uri: str, tmp_path_factory: pytest.TempPathFactory, commits: int
) -> None:
    """The log itself is the witness: each version must follow from the one before it by what its commit says."""
    with Lakehouse.open(warehouse_uri) as lake:
        make_notes(lake).write(notes({_FIRST: "the first"}), user=_WHO)
        lake.flush()
        notes_at = tmp_path_factory.mktemp("notes")
        ours, strangers = Note(notes_at / "ours"), Note(notes_at / "strangers")
        children = [(_flush_on, warehouse_uri, commits, ours), (_append_as_a_stranger, warehouse_uri, commits, strangers)]
        maintainers = [(_maintain, warehouse_uri, commits, name) for name in ("compact", "optimize", "restore")]
        assert exit_statuses([*children, *maintainers], seconds=1800) == [0] * 5
        lake.flush()
        uri = _scope_uri(lake)
        added = _replayed(lake, uri)
        assert sorted(added) == sorted([_FIRST, *(int(line) for line in ours.read() + strangers.read())])
        assert check_second_opinions(lake)


def _replayed(lake: Lakehouse, uri: str) -> list[int]:
    """Ids that commits brought, after checking what each commit did to the rows."""
    history = {entry.version: entry for entry in lake.table(NOTES).history(user=_WHO, limit=None)}
    added = list(_ids(uri, 0))
    before = added
    for version in range(1, max(history) + 1):
        now, entry = _ids(uri, version), history[version]
        match entry.operation:
            case "RESTORE":
                assert now == _ids(uri, int(entry.parameters["version"])), f"version {version}"
            case "WRITE" | "MERGE":
                assert set(before) <= set(now), f"version {version} lost rows of {version - 1}"
                added += [id_ for id_ in now if id_ not in before]
            case _:
                assert now == before, f"{entry.operation} made version {version} other rows than {version - 1}"
        assert len(now) == len(set(now)), f"version {version} has a row twice"
        before = now
    return added
