"""manifest.json says what the Delta table says, and comes back when it is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lakewarden.delta.manifest import refresh_manifest
from tests.delta.scopes import PEOPLE, flush, paths, people, schema, table_of, target, ticking


def _manifest(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "manifest.json").read_text())
    return found


def test_it_lists_the_live_segments(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", user="ü/1")
    flush(scope, people(1, 2), first_seq=5)
    flush(scope, people(11), first_seq=7)
    found = _manifest(tmp_path / "t")
    head = {name: found[name] for name in ("table_id", "user_id", "version", "delta_version", "last_sequence_number")}
    assert head == {"table_id": "chat:people", "user_id": "ü/1", "version": 2, "delta_version": 1, "last_sequence_number": 1}
    first, second = found["segments"]
    assert first["path"].startswith("batch-0-")
    assert (first["row_count"], first["min_seq"], first["max_seq"], first["schema_version"]) == (2, 5, 6, 1)
    assert (second["id"], second["status"], second["max_seq"]) == (second["path"], "committed", 7)
    assert first["size_bytes"] == (tmp_path / "t" / first["path"]).stat().st_size
    assert {first["path"], second["path"]} == paths(scope)


def test_a_flush_writes_what_a_rebuild_would(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", user=None)
    for number, ids in enumerate([(1, 2), (11, 12), (2, 13), (40,)]):
        flush(scope, people(*ids), first_seq=10 * number)
        flush(scope, deletes=[{"id": 999}], first_seq=10 * number + 5)
        written = _manifest(tmp_path / "t")
        (tmp_path / "t" / "manifest.json").unlink()
        assert refresh_manifest(scope, table_of(scope), ticking()())
        rebuilt = _manifest(tmp_path / "t")
        assert written | {"updated_at": 0, "created_at": 0} == rebuilt | {"updated_at": 0, "created_at": 0}


def test_it_is_rebuilt_only_when_it_is_behind(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    assert not refresh_manifest(scope, table_of(scope), ticking()())
    (tmp_path / "t" / "manifest.json").write_text("[broken")
    assert refresh_manifest(scope, table_of(scope), ticking()())
    assert _manifest(tmp_path / "t")["delta_version"] == 0


def test_schema_versions_come_from_the_footers_when_it_is_lost(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    (tmp_path / "t" / "manifest.json").unlink()
    scope = target(tmp_path / "t", PEOPLE, schema("id BIGINT NOT NULL", "name TEXT", "more INT", version=2))
    assert refresh_manifest(scope, table_of(scope), ticking()())
    assert [segment["schema_version"] for segment in _manifest(tmp_path / "t")["segments"]] == [1]


def test_nothing_is_left_beside_it(tmp_path: Path) -> None:
    flush(target(tmp_path / "t"), people(1))
    names = sorted(path.name for path in (tmp_path / "t").iterdir())
    assert names[0] == "_delta_log"
    assert names[1].startswith("batch-0-")
    assert names[2:] == ["manifest.json"]


def test_a_slow_commit_does_not_take_it_back(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))

    def overtaken(step: str) -> None:
        if step == "after-commit":
            flush(scope, people(3), first_seq=20)

    flush(scope, people(2), first_seq=10, reach=overtaken)
    found = _manifest(tmp_path / "t")
    assert (found["delta_version"], found["last_sequence_number"]) == (2, 2)
    assert {segment["path"] for segment in found["segments"]} == paths(scope)
