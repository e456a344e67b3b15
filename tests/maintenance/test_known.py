"""What is known of a scope is compared with what it has: less is CORRUPT, wherever it shows, and nothing goes on in silence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden import Column, Lakehouse
from lakewarden.base.scope import NOTHING, Scope, TableName
from lakewarden.catalog.model import User
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import SCHEMA, FloorLocation
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import TABLE_KEY, USER_KEY
from lakewarden.delta.scope import open_scope
from lakewarden.errors import Conflict, Corrupt
from lakewarden.log.objects import names
from lakewarden.maintenance import maintain
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from lakewarden.maintenance.move.run import Mover, move_scope
from lakewarden.storage.steps import Steps
from lakewarden.tables.client import TableClient
from lakewarden.tables.fanout import R, SizedWork, T, in_process
from lakewarden.tables.floors import FloorNote, UnwrittenFloors, forget, forget_moved, raise_floors
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, strong
from tests.maintenance.steps import Died, dies

pytestmark = pytest.mark.disk  # states are made by hand, in directories

_NAME = TableName.parse(NOTES)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(place: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(place)) as lake:
        yield lake


@pytest.fixture
def table(lake: Lakehouse) -> TableClient:
    table = make_notes(lake)
    for number in range(3):
        table.write(notes({number: "text"}), user="ann")
        _flush(lake)
    return table


def _flush(lake: Lakehouse) -> None:
    assert [report.fault for report in lake.flush() if report.fault] == []


def _codes(reports: list[ScopeReport]) -> list[str]:
    return [report.fault.code if report.fault else report.outcome for report in reports]


def _run(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
    return in_process(work, items, lambda _: None)


def _large(_: FlushTask) -> ScopeReport:
    raise AssertionError("no scope is large here")


def _bad(lake: Lakehouse) -> set[tuple[str, str, str]]:
    return {(finding.subject, finding.check, finding.code) for finding in lake.check() if not finding.passed}


def _target(lake: Lakehouse, user: str = "ann") -> ScopeTarget:
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(_NAME, user))


def _new_process() -> None:
    """What this one remembers of floors is forgotten."""
    floor_at.cache_clear()


def _commit(place: Path, version: int) -> Path:
    return place / "data" / "chat" / "notes" / "ann" / "_delta_log" / f"{version:020d}.json"


# A scope that is less than it was


def _directory_lost(place: Path) -> None:
    shutil.rmtree(place / "data" / "chat" / "notes" / "ann")


def _newest_commit_lost(place: Path) -> None:
    _commit(place, 2).unlink()


def _begun_again(place: Path) -> None:
    """Another program made a table there, with as many versions."""
    _directory_lost(place)
    rows = pa.table({"id": pa.array([7], pa.int64()), "text": ["theirs"], "_seq": pa.array([1], pa.int64())})
    for _ in range(4):
        write_deltalake(str(place / "data" / "chat" / "notes" / "ann"), rows, mode="append")


_LOST = {
    "directory lost": (_directory_lost, "at version 2 with 3 rows, and there is no table"),
    "newest commit lost": (_newest_commit_lost, "at version 2 with 3 rows, and .* has version 1"),
    "begun again": (_begun_again, r"with 3 rows and all rows up to _seq \d+, and .* has them up to -1"),
}


@pytest.mark.parametrize(("lose", "why"), _LOST.values(), ids=_LOST)
@pytest.mark.parametrize("remembered", [True, False], ids=["same process", "new process"])
def test_a_scope_that_lost_something_is_corrupt_everywhere(
    place: Path, lake: Lakehouse, table: TableClient, lose: Callable[[Path], None], why: str, *, remembered: bool
) -> None:
    lose(place)
    if not remembered:
        _new_process()
    table.write(notes({9: "hot"}), user="ann")
    for act in (strong, eventual, lambda table, user: table.history(user=user)):
        with pytest.raises(Corrupt, match=rf"{why}.*lakewarden repair chat\.notes"):
            act(table, "ann")
    before = sorted(place.glob("data/**/*"))
    assert _codes(lake.flush()) == ["CORRUPT"]
    looked = [*lake.compact(look=True), *lake.optimize(look=True), *lake.vacuum(look=True, dry_run=False)]
    assert _codes(looked) == ["CORRUPT"] * 3
    assert _codes(lake.restore(NOTES, user="ann", version=0, dry_run=False)) == ["CORRUPT"]
    assert sorted(place.glob("data/**/*")) == before, "nothing was begun, written or removed"
    assert [one.rows for one in lake.pending()] == [1]
    assert (f"{NOTES}[ann]", "known", "CORRUPT") in _bad(lake)
    (status,) = lake.status()
    assert "lakewarden repair" in (status.error or "")


def test_a_lost_commit_that_brought_no_rows_is_corrupt(place: Path, lake: Lakehouse, table: TableClient) -> None:
    """The watermark says nothing of it: the version alone does."""
    (compaction,) = lake.optimize(look=True)
    assert compaction.version == 3
    _commit(place, 3).unlink()
    for act in (strong, eventual):
        with pytest.raises(Corrupt, match=r"at version 3 with 3 rows, and .* has version 2.*lakewarden repair"):
            act(table, "ann")
    table.write(notes({9: "hot"}), user="ann")
    assert _codes(lake.flush()) == ["CORRUPT"]


@pytest.mark.parametrize("lose", [_directory_lost, _newest_commit_lost], ids=["directory lost", "newest commit lost"])
@pytest.mark.parametrize("way", ["drop", "erase"])
def test_what_lost_something_can_be_given_up(
    place: Path, lake: Lakehouse, table: TableClient, lose: Callable[[Path], None], way: str
) -> None:
    lose(place)
    if way == "drop":
        lake.drop_table(NOTES)
        table = make_notes(lake)
    else:
        assert lake.erase("ann").result == "complete"
    table.write(notes({1: "anew"}), user="ann")
    _flush(lake)
    assert eventual(table, "ann") == {1: "anew"}
    assert _bad(lake) == set()


def test_what_maintenance_made_is_known_too(place: Path, lake: Lakehouse, table: TableClient) -> None:
    assert _codes(lake.restore(NOTES, user="ann", version=0, dry_run=False)) == ["done"]
    assert eventual(table, "ann") == {0: "text"}
    _commit(place, 3).unlink()
    with pytest.raises(Corrupt, match="at version 3 with 1 rows"):
        eventual(table, "ann")


def test_commits_of_others_are_no_loss(place: Path, lake: Lakehouse, table: TableClient) -> None:
    scope = str(place / "data" / "chat" / "notes" / "ann")
    write_deltalake(scope, DeltaTable(scope).to_pyarrow_table().slice(0, 0), mode="append")
    table.write(notes({9: "x"}), user="ann")
    assert strong(table, "ann") == {0: "text", 1: "text", 2: "text", 9: "x"}
    _flush(lake)
    known = _target(lake).known
    assert known is not None
    assert (known.version, known.rows) == (4, 4)


def test_a_flush_that_deletes_says_so(lake: Lakehouse, table: TableClient) -> None:
    table.delete([{"id": 0}], user="ann")
    _flush(lake)
    known = _target(lake).known
    assert known is not None
    assert (known.rows, known.deleted_upto) == (2, known.watermark)
    table.write(notes({7: "more"}), user="ann")
    _flush(lake)
    later = _target(lake).known
    assert later is not None
    assert (later.deleted_upto, later.watermark > known.watermark) == (known.watermark, True)


def test_a_flush_that_finds_anothers_commit_says_that_it_may_have_deleted(lake: Lakehouse, table: TableClient) -> None:
    """The one that committed died before it noted anything."""
    table.delete([{"id": 0}], user="ann")
    with pytest.raises(Died):
        flush_scopes(lake.warehouse, _run, _large, lambda scope: True, reach=dies("after-commits"))
    assert _codes(lake.flush()) == ["skipped"]
    known = _target(lake).known
    assert known is not None
    assert (known.rows, known.deleted_upto) == (2, known.watermark)


def test_a_restore_says_that_it_deleted(lake: Lakehouse, table: TableClient) -> None:
    before = _target(lake).known
    assert before is not None
    assert _codes(lake.restore(NOTES, user="ann", version=0, dry_run=False)) == ["done"]
    known = _target(lake).known
    assert known is not None
    assert (known.rows, before.deleted_upto, known.deleted_upto) == (1, NOTHING, known.watermark)
    table.write(notes({7: "more"}), user="ann")
    _flush(lake)
    later = _target(lake).known
    assert later is not None
    assert later.deleted_upto == known.watermark


# Scopes that were given up


@pytest.mark.usefixtures("table")
def test_a_target_from_before_an_erasure_finds_no_table(lake: Lakehouse) -> None:
    before = _target(lake)
    assert before.known is not None
    lake.erase("ann")
    shutil.rmtree(Path(before.uri))  # as a sweep does, a week later
    assert open_scope(before) is None, "a second look at the floor"
    given_up = _target(lake).known
    assert given_up is not None
    assert given_up.upkeep is not None
    assert given_up == replace(before.known, watermark=given_up.watermark, rows=0, forgotten=True, upkeep=given_up.upkeep)
    assert (given_up.upkeep.files, given_up.upkeep.bytes) == (0, 0)


def test_an_erased_user_begins_again_below_the_old_version(lake: Lakehouse, table: TableClient) -> None:
    before = _target(lake)
    lake.erase("ann")
    shutil.rmtree(Path(before.uri))
    table.write(notes({5: "anew"}), user="ann")
    _flush(lake)
    known = _target(lake).known
    assert known is not None
    assert (known.version, known.rows, known.forgotten) == (0, 1, False)
    assert eventual(table, "ann") == {5: "anew"}
    opened = open_scope(before)
    assert opened is not None, "an older target, too"
    assert _bad(lake) == set()
    shutil.rmtree(Path(before.uri))
    with pytest.raises(Corrupt, match="at version 0 with 1 rows"):
        eventual(table, "ann")


@pytest.mark.usefixtures("table")
def test_what_is_given_up_has_no_less_than_what_was_known(place: Path, lake: Lakehouse) -> None:
    """By who knows of fewer rows than the floor: without it, the scope would be missed."""
    before = _target(lake).known
    assert before is not None
    forget(_target(lake), before.watermark - 1)
    shutil.rmtree(place / "data" / "chat" / "notes" / "ann")
    known = _target(lake).known
    assert known is not None
    assert (known.forgotten, known.rows, known.watermark) == (True, 0, before.watermark)
    assert open_scope(_target(lake)) is None


@pytest.mark.usefixtures("table")
def test_a_table_that_is_made_again_at_the_same_place_knows_nothing(lake: Lakehouse) -> None:
    old = _target(lake)
    lake.drop_table(NOTES)
    again = make_notes(lake)
    assert _target(lake).known is None
    assert old.floor is not None
    assert floor_at(old.floor).look().position == NOTHING, "its floors went with it"
    assert eventual(again, "ann") == {}
    again.write(notes({1: "new"}), user="ann")
    _flush(lake)
    assert eventual(again, "ann") == {1: "new"}
    assert _bad(lake) == set()


def test_a_moved_scope_is_known_at_its_new_place(place: Path, lake: Lakehouse, table: TableClient) -> None:
    lake.create_storage("cold", type="filesystem", base=str(place.parent / "cold"))
    before = _target(lake)
    lake.move(NOTES, "cold")
    assert eventual(table, "ann") == {0: "text", 1: "text", 2: "text"}
    table.write(notes({9: "x"}), user="ann")
    _flush(lake)
    assert _bad(lake) == set()
    assert _target(lake).known is not None
    assert open_scope(before) is not None, "the frozen fence at the old place has no less"
    shutil.rmtree(place.parent / "cold" / "chat")
    with pytest.raises(Corrupt, match="at version 3 with 4 rows, and there is no table"):
        eventual(table, "ann")


def test_a_version_that_came_behind_the_freeze_is_not_missed(place: Path, lake: Lakehouse, table: TableClient) -> None:
    """A compaction's, say, which is noted before the move ends, or after it."""
    lake.create_storage("cold", type="filesystem", base=str(place.parent / "cold"))
    target = _target(lake)
    assert target.floor is not None
    assert target.known is not None
    late = FloorNote(target, replace(target.known, version=9))

    def run(work: Callable[[T], Steps[R]], items: Sequence[SizedWork[T]]) -> list[R]:
        done = in_process(work, items, lambda _: None)
        if getattr(work, "__name__", "") == move_scope.__name__:
            raise_floors([late]).check()
        return done

    with lake.warehouse.locks.create().hold("chat", "notes") as lease:
        reports = Mover(lake.warehouse, run, lease, _NAME, "MV-1").move("cold")
    assert [report.fault for report in reports] == [None]
    assert eventual(table, "ann") == {0: "text", 1: "text", 2: "text"}
    raise_floors([late]).check()
    forget_moved(lake.warehouse, [late])
    assert eventual(table, "ann") == {0: "text", 1: "text", 2: "text"}
    table.write(notes({9: "x"}), user="ann")
    _flush(lake)
    assert _bad(lake) == set()


def test_a_version_that_is_noted_behind_the_move_is_not_missed(place: Path, lake: Lakehouse, table: TableClient) -> None:
    """By who saw it before the freeze, at the old place."""
    lake.create_storage("cold", type="filesystem", base=str(place.parent / "cold"))
    target = _target(lake)
    assert target.known is not None
    late = FloorNote(target, replace(target.known, version=9))
    lake.move(NOTES, "cold")
    raise_floors([late]).check()
    forget_moved(lake.warehouse, [late])
    assert eventual(table, "ann") == {0: "text", 1: "text", 2: "text"}
    table.write(notes({9: "x"}), user="ann")
    _flush(lake)
    assert _bad(lake) == set()


def test_a_restore_that_is_noted_behind_the_move_is_not_missed(
    place: Path, lake: Lakehouse, table: TableClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never commits behind the freeze: its version comes along, and its note needs no look whether the scope was moved."""
    lake.create_storage("cold", type="filesystem", base=str(place.parent / "cold"))

    def late(noted: Sequence[FloorNote]) -> UnwrittenFloors:
        if noted:
            monkeypatch.undo()
            assert _codes(lake.move(NOTES, "cold")) == ["done"]
        return raise_floors(noted)

    monkeypatch.setattr(maintain, "raise_floors", late)
    assert _codes(lake.restore(NOTES, user="ann", version=0, dry_run=False)) == ["done"]
    known = _target(lake).known
    assert known is not None
    assert (known.version, known.rows, known.forgotten) == (3, 1, False)
    assert eventual(table, "ann") == {0: "text"}
    table.write(notes({9: "x"}), user="ann")
    _flush(lake)
    assert _bad(lake) == set()
    assert eventual(table, "ann") == {0: "text", 9: "x"}


# A state that is older than the data, and data that is older than the state


def test_a_state_from_a_backup_takes_no_rows_below_what_was_settled(place: Path, lake: Lakehouse, table: TableClient) -> None:
    backup = place.parent / "backup"
    shutil.copytree(place / "_lakewarden", backup)
    table.write(notes({7: "later"}), user="ann")
    _flush(lake)
    shutil.rmtree(place / "_lakewarden")
    shutil.copytree(backup, place / "_lakewarden")
    _new_process()
    with Lakehouse.open(str(place)) as restored:
        with pytest.raises(Corrupt, match=r"the warehouse's state is older than its data.*repair --restored"):
            restored.table(NOTES).write(notes({8: "lost?"}), user="ann")
        assert (NOTES, "floor", "CORRUPT") in _bad(restored)


def test_rows_that_were_taken_on_an_older_state_are_not_flushed(place: Path, lake: Lakehouse, table: TableClient) -> None:
    """By a writer that has not looked since: it was there all the time."""
    backup = place.parent / "backup"
    shutil.copytree(place / "_lakewarden", backup)
    for number in range(4):
        table.write(notes({7 + number: "later"}), user="ann")
    _flush(lake)
    shutil.rmtree(place / "_lakewarden")
    shutil.copytree(backup, place / "_lakewarden")
    log_id = table.table.log_id
    segment = place / "_lakewarden" / names.segment_key(log_id, 3)
    segment.write_bytes(_a_segment(lake))
    _new_process()
    with Lakehouse.open(str(place)) as restored:
        assert _codes(restored.flush(NOTES)) == ["CORRUPT"]
        assert [one.rows for one in restored.pending() if one.table == _NAME] == [1]


def _a_segment(lake: Lakehouse) -> bytes:
    other = lake.create_table(
        "chat.other", type="USER", columns=[Column("id", "BIGINT"), Column("text", "TEXT")], primary_key=["id"]
    )
    other.write(notes({1: "x"}), user="ann")
    (found,) = lake.warehouse.state.list(names.segments(other.table.log_id))
    return lake.warehouse.state.get(found.key)


def test_a_lost_cut_takes_no_rows(place: Path, table: TableClient) -> None:
    """Without any cut the log seems to begin at its first position."""
    shutil.rmtree(place / "_lakewarden" / names.cuts(table.table.log_id))
    with Lakehouse.open(str(place)) as again, pytest.raises(Corrupt):
        again.table(NOTES).write(notes({8: "lost?"}), user="ann")


def test_data_from_a_backup_is_not_flushed_to(place: Path, lake: Lakehouse, table: TableClient) -> None:
    """Also scopes of which that backup has all: what else it lacks, nobody has looked at yet."""
    table.write(notes({1: "of bob"}), user="bob")
    _flush(lake)
    backup = place.parent / "backup"
    shutil.copytree(place / "data", backup)
    for number in range(2):
        table.write(notes({7 + number: "later"}), user="ann")
        _flush(lake)
    shutil.rmtree(place / "data")
    shutil.copytree(backup, place / "data")
    _new_process()
    table.write(notes({2: "more"}), user="bob")
    (report,) = lake.flush()
    assert report.fault is not None
    assert (report.fault.code, "it is older than the warehouse's state" in report.fault.message) == ("CORRUPT", True)
    assert {(NOTES, "floor", "CORRUPT"), (f"{NOTES}[ann]", "known", "CORRUPT")} <= _bad(lake)


def test_a_storage_that_is_away_refuses_no_write(place: Path, lake: Lakehouse) -> None:
    cold = place.parent / "cold"
    lake.create_storage("cold", type="filesystem", base=str(cold))
    table = make_notes(lake, options={"STORAGE_ID": "cold"})
    table.write(notes({1: "a"}), user="ann")
    _flush(lake)
    cold.rename(place.parent / "away")
    with Lakehouse.open(str(place)) as again:
        again.table(NOTES).write(notes({2: "b"}), user="ann")
        assert _codes(again.flush()) == ["STORAGE_UNAVAILABLE"]
    (place.parent / "away").rename(cold)
    _flush(lake)
    assert eventual(table, "ann") == {1: "a", 2: "b"}


# Copies


def _copied_over(place: Path) -> None:
    scopes = place / "data" / "chat" / "notes"
    shutil.rmtree(scopes / "bob")
    shutil.copytree(scopes / "ann", scopes / "bob")


def test_a_scope_that_was_copied_over_anothers_is_never_read_and_never_laundered(
    place: Path, lake: Lakehouse, table: TableClient
) -> None:
    table.write(notes({1: "of bob"}), user="bob")
    _flush(lake)
    _copied_over(place)
    for _ in range(2):
        for read in (strong, eventual):
            with pytest.raises(Corrupt, match=r"belongs to another scope, not to chat\.notes\[bob\]"):
                read(table, "bob")
        table.write(notes({2: "hot"}), user="bob")
        assert _codes(lake.flush()) == ["CORRUPT"]
        assert _bad(lake) == {(f"{NOTES}[bob]", "scope", "CORRUPT")}
    assert strong(table, "ann") == {0: "text", 1: "text", 2: "text"}


def test_a_table_that_does_not_name_its_scope_is_told_by_its_commits_before_it_is_given_the_name(
    place: Path, lake: Lakehouse, table: TableClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tables are that were made before there was that property."""
    with monkeypatch.context() as earlier:
        earlier.setattr("lakewarden.delta.scope.owner_of", lambda target: "")
        for user in ("cem", "bob"):
            table.write(notes({1: f"of {user}"}), user=user)
            _flush(lake)
    table.write(notes({2: "more"}), user="cem")
    _flush(lake)
    opened = open_scope(_target(lake, "cem"))
    assert opened is not None
    assert opened.property("lakewarden.scope") == f"{table.table.log_id} {_target(lake, 'cem').mark}"
    scopes = place / "data" / "chat" / "notes"
    shutil.rmtree(scopes / "cem")
    shutil.copytree(scopes / "bob", scopes / "cem")
    table.write(notes({3: "hot"}), user="cem")
    assert _codes(lake.flush()) == ["CORRUPT"]


@pytest.mark.usefixtures("table")
def test_a_data_file_that_names_another_scope_is_not_read(place: Path, lake: Lakehouse) -> None:
    """Whatever the log beside it says."""
    (*_, newest) = sorted((place / "data" / "chat" / "notes" / "ann").glob("batch-2-*.parquet"))
    rows = pq.read_table(newest)
    metadata = dict(pq.read_metadata(newest).metadata or {})
    assert metadata[TABLE_KEY] == NOTES.encode()
    pq.write_table(rows.replace_schema_metadata({**metadata, USER_KEY: b"bob"}), newest)
    with pytest.raises(Corrupt, match="holds rows of another scope"):
        lake.table(NOTES).read(user="ann")


# Which tables have floors


def test_each_storage_knows_its_own_scopes_and_the_state_all(place: Path, lake: Lakehouse) -> None:
    cold = place.parent / "cold"
    lake.create_storage("cold", type="filesystem", base=str(cold))
    now = lake.warehouse.clock()
    user = User("bob", "user", "internal", now, now, storage_mode="region", storage_id="cold")
    lake.warehouse.catalog.change(lambda catalog: replace(catalog, users={"bob": user}))
    table = make_notes(lake, options={"USE_USER_STORAGE": "true"})
    for name in ("ann", "bob"):
        table.write(notes({1: name}), user=name)
    _flush(lake)
    ann, bob = _target(lake, "ann"), _target(lake, "bob")
    assert (ann.root and ann.root.storage_id, bob.root and bob.root.storage_id) == ("local", "cold")
    known = {}
    for target in (ann, bob):
        assert target.root is not None
        floor = floor_at(FloorLocation.on_storage(target.root.location, table.table.id)).look()
        known[target.scope.user] = (floor.known(ann.mark) is not None, floor.known(bob.mark) is not None)
    assert known == {"ann": (True, False), "bob": (False, True)}
    assert ann.known is not None
    assert bob.known is not None


def test_a_stream_has_no_floor(place: Path, lake: Lakehouse) -> None:
    lake.create_namespace("chat")
    stream = lake.create_table("chat.feed", type="STREAM", columns=[Column("text", "TEXT")], options={"TTL_SECONDS": "60"})
    stream.write([{"text": "x"}], user="ann")
    lake.evict()
    assert not (place / "_lakewarden" / "known").exists()


def test_floors_hold_no_name(place: Path, lake: Lakehouse, table: TableClient) -> None:
    table.write(notes({1: "a value"}), user="someone-special")
    _flush(lake)
    found = [*place.glob("_lakewarden/known/*/*"), *place.glob("data/.lakewarden-floor/*/*")]
    assert len(found) >= 2
    assert not any(b"special" in path.read_bytes() or b"a value" in path.read_bytes() for path in found)
    assert lake.erase("someone-special", deep=True).result == "complete"


@pytest.mark.parametrize("where", ["_lakewarden/known", "data/.lakewarden-floor"])
def test_an_erasure_is_not_certified_over_a_floor_that_holds_more(
    place: Path, lake: Lakehouse, table: TableClient, where: str
) -> None:
    odd = place / where / table.table.id / f"{0:020d}-odd"
    with pa.OSFile(str(odd), "wb") as file, pa.ipc.new_stream(file, SCHEMA.append(pa.field("user", pa.string()))):
        pass
    with pytest.raises(Conflict, match="a floor that holds more than keyed hashes, versions and counts"):
        lake.erase("ann")
    odd.unlink()
    assert lake.erase("ann").result == "complete"
