"""A repair beside the other promises: erasures, deaths in the middle, what is set apart, and how it is reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewarden import Column
from lakewarden.base.scope import TableName
from lakewarden.catalog.evolution import AddColumn
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import ON_STORAGES, FloorLocation
from lakewarden.cli.main import main
from lakewarden.errors import InvalidArgument, LakewardenError, NotFound, StorageUnavailable
from lakewarden.log.table_log import TableLog
from lakewarden.maintenance.repair import run as run_module
from lakewarden.maintenance.repair import scope as scope_module
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.warehouse import find_table
from tests.fixtures.bucket import AnyPath
from tests.maintenance.repair.states import FORGOTTEN, HURT, OTHER, TABLE, Died, Scene

pytestmark = pytest.mark.disk


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    scene.begin()
    yield scene
    for lake in scene.lakes:
        lake.close()


def lose_commit(scene: Scene) -> None:
    """Of two flushes the second one's commit and manifest; it deleted row 1."""
    scene.write({1: "a", 2: "b"})
    scene.flush()
    scene.write({3: "c"})
    scene.delete(1)
    scene.flush()
    scene.commits()[-1].unlink()
    (scene.scope() / "manifest.json").unlink()


def test_nothing_is_repaired_of_a_sound_warehouse(scene: Scene) -> None:
    assert scene.lake().repair() == []
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    assert [(one.scope.user, one.outcome, one.rows_lost) for one in scene.lake().repair()] == [(HURT, "skipped", 0)]
    assert scene.read() == {1: "a", 2: "b"}


def test_only_the_scopes_that_were_named_are_repaired(scene: Scene) -> None:
    for user in (HURT, OTHER):
        scene.write({1: "a"}, user)
        scene.flush()
        scene.commits(user)[-1].unlink()
    assert [one.scope.user for one in scene.lake().repair(TABLE, user=OTHER)] == [OTHER]
    assert scene.read(OTHER) == {1: "a"}
    with pytest.raises(LakewardenError):
        scene.read(HURT)


def test_unknown_tables_and_users_of_shared_ones_are_refused(scene: Scene) -> None:
    lake = scene.lake()
    lake.create_table("chat.everybody", type="SHARED", columns=[Column("id", "BIGINT")], primary_key=["id"])
    with pytest.raises(NotFound):
        lake.repair("chat.nothing")
    with pytest.raises(InvalidArgument):
        lake.repair("chat.everybody", user=HURT)
    assert lake.repair(user=HURT)[0].scope.user == HURT, "all tables that have users"


def test_a_shared_table_is_repaired_too(scene: Scene) -> None:
    lake = scene.lake()
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    shared = lake.create_table(
        "chat.everybody", type="SHARED", columns=columns, primary_key=["id"], options={"STORAGE_ID": "cold"}
    )
    shared.write([{"id": 1, "text": "a"}])
    lake.flush("chat.everybody")
    (commit,) = (scene.cold / "chat" / "everybody" / "_delta_log").glob("*.json")
    commit.unlink()
    assert [(one.outcome, one.rows_recovered) for one in scene.lake().repair("chat.everybody")] == [("done", 1)]
    assert scene.lake().table("chat.everybody").read().num_rows == 1


def test_rows_whose_deletion_cannot_be_excluded_are_set_apart(scene: Scene) -> None:
    scene.settings = FORGOTTEN
    lose_commit(scene)

    (done,) = scene.lake().repair()

    assert (done.rows_quarantined, done.rows_lost) == (2, None)
    apart = [name for name in done.put_aside if name.endswith(".parquet")]
    rows = pq.read_table(str(scene.scope() / apart[0])).to_pylist()
    assert sorted((row["id"], row["text"]) for row in rows) == [(1, "a"), (2, "b")], "row 1 was deleted, and no trace says so"
    assert scene.read() == {3: "c"}


def test_rows_that_a_flush_deleted_which_died_do_not_come_back(scene: Scene) -> None:
    """The next flush settled what it had committed."""
    scene.settings = FORGOTTEN
    scene.write({1: "a", 2: "b"})
    scene.flush()
    scene.delete(1)
    scene.flush_and_die("after-commits")
    scene.flush()
    scene.commits()[-1].unlink()
    (scene.scope() / "manifest.json").unlink()

    (done,) = scene.lake().repair()

    assert (done.rows_quarantined, done.rows_lost, scene.read()) == (2, None, {})


def test_an_erasure_takes_what_was_set_apart(scene: Scene) -> None:
    scene.settings = FORGOTTEN
    lose_commit(scene)
    scene.lake().repair()

    certificate = scene.lake().erase(HURT)

    assert certificate.result == "complete"
    assert not (scene.scope() / "_quarantine").is_dir() or not list((scene.scope() / "_quarantine").rglob("*.parquet"))


def test_what_was_set_apart_is_found_by_who_searches(scene: Scene) -> None:
    scene.settings = FORGOTTEN
    lose_commit(scene)
    scene.lake().repair()
    assert any("_quarantine/" in found.uri for found in scene.lake().verify_erased(HURT).findings)


@pytest.mark.slow
def test_a_vacuum_and_other_readers_pass_the_quarantine_over(scene: Scene) -> None:
    scene.settings = FORGOTTEN
    lose_commit(scene)
    (done,) = scene.lake().repair()
    scene.lake().vacuum(TABLE, retain_hours=0, force=True)
    assert all((scene.scope() / name).is_file() for name in done.put_aside)
    assert scene.read() == {3: "c"}


def test_rows_of_an_erased_user_do_not_come_back(scene: Scene) -> None:
    scene.write({1: "old"})
    scene.flush()
    scene.lake().erase(HURT)
    scene.write({2: "new"})
    scene.flush()
    scene.commits()[-1].unlink()

    scene.lake().repair()

    assert scene.read() == {2: "new"}


def test_a_restore_that_was_lost_sets_apart_what_it_may_have_undone(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    scene.flush()
    scene.lake().restore(TABLE, user=HURT, version=0, dry_run=False)
    scene.commits()[-1].unlink()
    (scene.scope() / "manifest.json").unlink()

    (done,) = scene.lake().repair()

    assert 2 not in scene.read(), "the restore took it back"
    assert done.rows_quarantined


def cut_off(*objects: AnyPath) -> None:
    for path in objects:
        path.write_bytes(path.read_bytes()[:40])


def notes_of(scene: Scene, below: str) -> list[AnyPath]:
    """The objects of a copy of the floor, oldest first."""
    return sorted((scene.state if below == "known" else scene.cold).glob(f"{below}/*/*"))


def two_tables(scene: Scene) -> None:
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    scene.lake().create_table("chat.everybody", type="SHARED", columns=columns, primary_key=["id"])
    scene.write({1: "a", 2: "b"})
    scene.delete(2)
    scene.write({1: "a"}, OTHER)
    scene.flush()
    scene.write({3: "c"})
    scene.flush()


@pytest.mark.parametrize("below", ["known", ON_STORAGES])
def test_a_rebuilt_floor_knows_what_the_lost_one_knew(scene: Scene, below: str) -> None:
    two_tables(scene)
    warehouse = scene.lake().warehouse
    root = warehouse.root(warehouse.catalog.read().storages["cold"])
    table = find_table(warehouse.catalog.read(), TableName.parse(TABLE))
    place = warehouse.floor(table) if below == "known" else FloorLocation.on_storage(root.location, table.id)
    before = floor_at(place).look()
    cut_off(*notes_of(scene, below))

    (told, *scopes) = scene.lake().repair(TABLE)

    assert (told.subject, told.outcome) == ("floor", "done")
    assert {one.outcome for one in scopes} == {"skipped"}
    after = floor_at(place).look()
    marks = [warehouse.erasures.mark(user) for user in (HURT, OTHER)]
    found = [look.known(mark) for look in (before, after) for mark in marks]
    then, now = [[one and replace(one, upkeep=None) for one in half] for half in (found[:2], found[2:])]
    assert None not in then
    assert now == then, "what maintenance needs is looked at again"
    assert after.position == before.position
    assert after.storages == ({root.identity: after.position} if below == "known" else {}), "as the storage shows it now"


def test_where_both_are_lost_the_scopes_say_what_they_have(scene: Scene) -> None:
    two_tables(scene)
    warehouse = scene.lake().warehouse
    place = warehouse.floor(find_table(warehouse.catalog.read(), TableName.parse(TABLE)))
    before = floor_at(place).look()
    cut_off(*notes_of(scene, "known"), *notes_of(scene, ON_STORAGES))

    (told, *_) = scene.lake().repair(TABLE, user=OTHER)

    assert "what the scopes have now counts as all that they had" in told.reason
    after = floor_at(place).look()
    assert after.position == before.position
    for user in (HURT, OTHER):
        known, was = (look.known(warehouse.erasures.mark(user)) for look in (after, before))
        assert known is not None
        assert was is not None
        assert (known.version, known.watermark, known.rows) == (was.version, was.watermark, was.rows)
        assert known.deleted_upto == known.watermark, "nothing says that no row was deleted"


def test_other_tables_are_flushed_where_a_floor_cannot_be_read(scene: Scene) -> None:
    two_tables(scene)
    scene.lake().table("chat.everybody").write([{"id": 1, "text": "a"}])
    scene.write({4: "d"})
    cut_off(*notes_of(scene, "known"))
    said = {str(report.scope.table): report.fault and report.fault.code for report in scene.lake().flush()}
    assert said == {TABLE: "CORRUPT", "chat.everybody": None}


@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("operation", ["compact", "optimize", "vacuum"])
def test_other_tables_are_maintained_where_a_floor_cannot_be_read(scene: Scene, operation: str, look: bool) -> None:
    two_tables(scene)
    damaged = notes_of(scene, "known")
    lake = scene.lake()
    lake.table("chat.everybody").write([{"id": 1, "text": "a"}])
    lake.flush("chat.everybody")
    cut_off(*damaged)
    reports = getattr(scene.lake(), operation)(dry_run=False, look=look)
    said = {(str(report.scope.table), report.scope.user): report.fault and report.fault.code for report in reports}
    assert said == {(TABLE, HURT): "CORRUPT", (TABLE, OTHER): "CORRUPT", ("chat.everybody", None): None}


def test_a_copy_that_is_away_is_waited_for(scene: Scene) -> None:
    two_tables(scene)
    cut_off(*notes_of(scene, "known"))
    cold, away = Path(str(scene.cold)), Path(str(scene.root), "away")
    cold.rename(away)
    cold.mkdir()
    with pytest.raises(StorageUnavailable, match="is it mounted"):
        scene.lake().repair(TABLE)
    cold.rmdir()
    away.rename(cold)
    assert scene.lake().repair(TABLE)[0].outcome == "done"
    assert scene.read() == {1: "a", 3: "c"}


def test_a_rebuild_that_dies_before_it_removes_anything_is_done_by_the_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_tables(scene)
    cut_off(*notes_of(scene, "known"))
    damaged = notes_of(scene, "known")
    with monkeypatch.context() as patched:
        patched.setattr(LocalObjects, "delete", _dies)
        with suppress(Died):
            scene.lake().repair(TABLE)
    assert set(damaged) < set(notes_of(scene, "known"))
    assert scene.lake().repair(TABLE)[0].outcome == "done"
    assert not set(damaged) & set(notes_of(scene, "known"))
    assert scene.read() == {1: "a", 3: "c"}


@pytest.mark.parametrize("lost", ["the manifest too", "the commit alone"])
def test_rows_that_are_older_than_a_column_have_its_initial_value(scene: Scene, lost: str) -> None:
    scene.settings = FORGOTTEN  # so that files alone have them
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    scene.flush()
    scene.lake().alter_table(TABLE, AddColumn(Column("state", "TEXT", nullable=False, default="'new'")))
    scene.commits()[-1].unlink()
    if lost == "the manifest too":
        (scene.scope() / "manifest.json").unlink()
    scene.lake().repair()
    rows = scene.lake().table(TABLE).read(user=HURT).to_pylist()
    assert sorted((row["id"], row["state"]) for row in rows) == [(1, "new"), (2, "new")]


def test_an_erasure_is_complete_behind_it(scene: Scene) -> None:
    """What cannot be read may hold anything."""
    two_tables(scene)
    cut_off(*notes_of(scene, ON_STORAGES))
    scene.lake().repair()
    assert scene.lake().erase(HURT).result == "complete"


def _dies(*_: object) -> None:
    raise Died


STEPS: list[tuple[Any, str]] = [
    (scope_module, "_set_apart"),
    (scope_module, "put_aside"),
    (scope_module, "create_table"),
    (scope_module, "_behind_the_last"),
    (scope_module, "_written"),
    (scope_module, "_commit"),
    (run_module, "repair_scope"),
    (run_module, "raise_floors"),
    (TableLog, "note_rewound"),
]


@pytest.mark.parametrize("lost", [False, True], ids=["of before the backup", "of after the backup"])
def test_a_place_of_before_a_restored_backup_goes_on_nowhere(scene: Scene, lost: bool) -> None:
    query = f"SELECT id FROM {TABLE}"
    scene.write({1: "a"})
    scene.flush()
    with scene.lake().subscribe(query, user=HURT) as before:
        before.poll()
        place = before.seq
    backup = scene.copy(scene.state)
    scene.write({2: "b"})
    scene.flush()
    if lost:
        with scene.lake().subscribe(query, user=HURT) as after:
            after.poll()
            place = after.seq
    scene.put_back(backup, scene.state)
    scene.lake().repair(restored=True)
    with pytest.raises(InvalidArgument, match="restore from a backup"):
        scene.lake().subscribe(query, user=HURT, from_seq=place)
    with scene.lake().subscribe(query, user=HURT) as anew:
        assert [event.row["id"] for event in anew.poll()] == [1, 2]
        place = anew.seq
    scene.write({3: "c"})
    with scene.lake().subscribe(query, user=HURT, from_seq=place) as on:
        assert [event.row["id"] for event in on.poll()] == [3]


@pytest.mark.parametrize(("module", "step"), STEPS, ids=lambda step: getattr(step, "__name__", step).rpartition(".")[2])
@pytest.mark.parametrize("damage", ["commit", "directory"])
def test_a_repair_that_dies_anywhere_is_done_by_the_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, module: Any, step: str, damage: str
) -> None:
    lose_commit(scene)
    if damage == "directory":
        scene.put_back(scene.root / "nothing", scene.scope())
    with monkeypatch.context() as patched:
        patched.setattr(module, step, _then_dies(getattr(module, step)))
        with suppress(Died):
            scene.lake().repair()
    scene.lake().repair()
    assert scene.read() == {2: "b", 3: "c"}
    assert {one.outcome for one in scene.lake().repair()} == {"skipped"}


def _then_dies(step: Callable[..., object]) -> Callable[..., object]:
    def run(*arguments: Any, **named: Any) -> object:
        step(*arguments, **named)
        raise Died

    return run


def test_the_command_line_prints_an_object_a_scope(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    lose_commit(scene)
    printed = []
    for extra in (["--dry-run"], []):
        with pytest.raises(SystemExit) as ended:
            main(["--warehouse", str(scene.warehouse), "--format", "json", "repair", TABLE, *extra])
        assert not ended.value.code
        printed += json.loads(capsys.readouterr().out)
    shown = {"table", "user", "outcome", "reason", "put_aside", "rows_recovered", "rows_lost"}
    assert all(shown <= one.keys() for one in printed)
    assert [(one["table"], one["user"], one["outcome"], one["rows_lost"]) for one in printed] == [
        (TABLE, HURT, "planned", 0),
        (TABLE, HURT, "done", 0),
    ]
