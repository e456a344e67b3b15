"""A warehouse of the last release before format 2 (tests/fixtures/warehouses): it goes on as it was, until it is upgraded."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.cli.main import main
from lakewarden.delta.scope import PROPERTY, open_scope
from lakewarden.errors import Corrupt, InvalidArgument, LakewardenError, StorageUnavailable
from lakewarden.storage.owner import MARKER
from tests.fixtures.lakes import NOTES, notes
from tests.lines import TESTS

pytestmark = pytest.mark.disk

_ARCHIVE = TESTS / "fixtures" / "warehouses" / "2e15da4.tar.gz"

Held = dict[str, dict[str, dict[int, str]]]
"""Text by table, user and id."""


@dataclass(frozen=True)
class Old:
    place: Path
    held: Held

    @property
    def format(self) -> int:
        return int(json.loads((self.place / "_lakewarden" / "warehouse.json").read_bytes())["format"])


@pytest.fixture
def old(tmp_path: Path) -> Old:
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    said = json.loads((tmp_path / "held.json").read_bytes())
    held = {name: {user: _by_id(rows) for user, rows in users.items()} for name, users in said.items()}
    return Old(tmp_path / "warehouse", held)


def _by_id(rows: dict[str, str]) -> dict[int, str]:
    return {int(key): text for key, text in rows.items()}


@pytest.fixture
def lake(old: Old) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(old.place)) as lake:
        yield lake


def _held(lake: Lakehouse, like: Held) -> Held:
    return {name: {user: _rows(lake, name, user) for user in of} for name, of in like.items()}


def _rows(lake: Lakehouse, name: str, user: str) -> dict[int, str]:
    return {row["id"]: row["text"] for row in lake.table(name).read(user=user or None).to_pylist()}


def _works(lake: Lakehouse, held: Held) -> None:
    """Reads, writes, flushes, compacts and restores; the move that is under way is ended."""
    assert _held(lake, held) == held
    assert [finding for finding in lake.check() if not finding.passed] == []
    assert {report.outcome for report in lake.move("chat.moved", "cold")} == {"done"}
    table = lake.table(NOTES)
    table.write(notes({7: "new"}), user="ann")
    assert [report.reason for report in lake.flush() if report.outcome != "done"] == []
    expected = held | {NOTES: held[NOTES] | {"ann": held[NOTES]["ann"] | {7: "new"}}}
    assert _held(lake, held) == expected
    assert lake.pending() == []
    assert {report.fault for report in (*lake.compact(), *lake.optimize(), *lake.vacuum(dry_run=False))} == {None}
    (tag,) = lake.tags(NOTES, user="ann")
    (restored,) = lake.restore(NOTES, user="ann", version=tag.version, dry_run=False)
    assert restored.fault is None
    assert _rows(lake, NOTES, "ann") == {key: f"text {key}" for key in range(5)}
    assert lake.erase("bob").result == "complete"
    assert _rows(lake, NOTES, "bob") == {}
    table.write(notes({1: "anew"}), user="bob")
    lake.flush()
    assert _rows(lake, NOTES, "bob") == {1: "anew"}
    assert [finding for finding in lake.check() if not finding.passed] == []


@pytest.mark.slow
def test_it_opens_and_works_in_its_own_format(old: Old, lake: Lakehouse) -> None:
    assert lake.warehouse.format == old.format == 1
    _works(lake, old.held)
    assert old.format == 1
    there = {path.name for path in (old.place / "_lakewarden").iterdir()}
    assert "known" not in there
    assert not list(old.place.rglob(".lakewarden-floor"))
    assert all(storage.identity == "" for storage in lake.storages())
    assert (old.place / "cold" / MARKER).read_text() == lake.warehouse.id, "as releases of format 1 compare it"


@pytest.mark.slow
def test_upgraded_it_works_and_what_it_has_is_known(old: Old, lake: Lakehouse) -> None:
    upgraded = lake.upgrade()
    assert [(one.storage_id, one.scopes, one.format) for one in upgraded] == [("local", 5, 3), ("cold", 0, 3)]
    assert old.format == 3, "older releases refuse any other number"
    with Lakehouse.open(str(old.place)) as newer:
        assert newer.warehouse.format == 3
        assert [storage.identity for storage in newer.storages()] == [one.identity for one in upgraded]
        target = newer.warehouse.target(newer.warehouse.catalog.read(), Scope(TableName.parse(NOTES), "ann"))
        assert target.known is not None
        assert target.known.version == 2
        _works(newer, old.held)
        target = newer.warehouse.target(newer.warehouse.catalog.read(), Scope(TableName.parse(NOTES), "ann"))
        table = open_scope(target)
        assert table is not None
        assert table.property(PROPERTY).endswith(target.mark)
        assert target.known is not None
        assert target.known.version == table.version
        shutil.rmtree(Path(target.uri))
        with pytest.raises(Corrupt, match=r"chat.notes\[ann\] was at version \d+ with 5 rows, and there is no table"):
            newer.table(NOTES).read(user="ann")


def test_it_may_be_upgraded_again_and_again(old: Old, lake: Lakehouse) -> None:
    first = lake.upgrade()
    with Lakehouse.open(str(old.place)) as again:
        assert again.upgrade() == first
        assert _held(again, old.held) == old.held


@pytest.mark.parametrize("lost", ["data/chat/notes/ann", "cold/.lakewarden-owner", "data"])
def test_it_stays_as_it_is_where_something_is_not_there(old: Old, lake: Lakehouse, lost: str) -> None:
    """A storage that is not mounted must not be given an identity in its mount point."""
    there, away = old.place / lost, old.place.parent / "away"
    there.rename(away)
    with pytest.raises((Corrupt, StorageUnavailable), match="mounted"):
        lake.upgrade()
    assert (old.format, {storage.identity for storage in lake.storages()}) == (1, {""})
    shutil.rmtree(there, ignore_errors=True)
    away.rename(there)
    lake.upgrade()
    assert old.format == 3


def _compaction(min_eligible_segments: int) -> Settings:
    return Settings(compaction=CompactionSettings(min_eligible_segments=min_eligible_segments))


def _kept(lake: Lakehouse) -> dict[str, float]:
    return {one.key: one.value for one in lake.settings() if one.value != one.default}


def test_what_its_processes_say_counts_until_it_is_taken_over_once(old: Old, caplog: pytest.LogCaptureFixture) -> None:
    key = "compaction.min_eligible_segments"
    for own in (2, 3):
        with Lakehouse.open(str(old.place), settings=_compaction(own)) as lake:
            assert _kept(lake) == {key: own}
            assert lake.warehouse.catalog.read().settings is None
    with Lakehouse.open(str(old.place), settings=_compaction(3)) as lake:
        lake.upgrade()
    assert not caplog.records
    for later in (Settings(), _compaction(3), _compaction(2)):
        with Lakehouse.open(str(old.place), settings=later) as lake:
            lake.upgrade()
            assert _kept(lake) == {key: 3}
            assert _kept(lake) == {key: 3}
    (warned,) = caplog.records
    assert f"{key} is 3 in the warehouse {old.place}, whatever lakewarden.toml" in warned.getMessage()


def test_the_first_change_keeps_what_was_said_before(old: Old) -> None:
    with Lakehouse.open(str(old.place), settings=_compaction(2)) as lake:
        lake.alter_warehouse({"maintenance.min_gain": 0.5})
    with Lakehouse.open(str(old.place)) as lake:
        assert _kept(lake) == {"compaction.min_eligible_segments": 2, "maintenance.min_gain": 0.5}
        (audited,) = (
            one
            for one in AuditLog(lake.warehouse.state, lake.warehouse.clock, lake.warehouse.new_id).newest()
            if one.action == "ALTER_WAREHOUSE"
        )
        assert (audited.actor_user_id, audited.details) == ("root", "maintenance.min_gain = 0.5")


def test_a_new_warehouse_begins_with_what_its_process_says(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path), settings=_compaction(2)) as lake:
        assert _kept(lake) == {"compaction.min_eligible_segments": 2}
    with Lakehouse.open(str(tmp_path)) as lake:
        assert _kept(lake) == {"compaction.min_eligible_segments": 2}
        with pytest.raises(InvalidArgument, match="max_segments_per_run"):
            lake.alter_warehouse({"compaction.ratio": 5, "compaction.max_segments_per_run": 1})
        assert _kept(lake) == {"compaction.min_eligible_segments": 2}, "all or none"


def test_once_upgraded_no_scope_is_opened_by_it_and_by_what_follows(
    old: Old, lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lake.upgrade()
    with Lakehouse.open(str(old.place)) as newer:
        newer.compact(look=True)
        monkeypatch.setattr("lakewarden.delta.scope.open_place", None)
        monkeypatch.setattr("lakewarden.delta.table.ScopeTable.open", None)
        assert newer.upgrade() == first
        assert {report.outcome for report in newer.compact(scheduled=True)} == {"skipped"}


def test_a_later_format_is_refused(old: Old, lake: Lakehouse) -> None:
    lake.close()
    (old.place / "_lakewarden" / "warehouse.json").write_text(json.dumps({"format": 4, "id": "a"}))
    with pytest.raises(LakewardenError, match="has format 4; this version of Lakewarden reads formats 1 to 3"):
        Lakehouse.open(str(old.place))


def test_by_command_line(old: Old, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["upgrade", "--warehouse", str(old.place), "--format", "json"])
    assert not left.value.code
    rows = json.loads(capsys.readouterr().out)
    assert [(row["storage_id"], row["format"], row["scopes"]) for row in rows] == [("local", 3, 5), ("cold", 3, 0)]
    assert all(len(row["identity"]) == 32 for row in rows)
