"""Who wrote, behind a repair: an identity is kept where all rows of its writes are back; else the writer stops until told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden import Column, Lakehouse
from lakewarden.errors import FailedPrecondition
from lakewarden.log.once import WriterBatch, writer_key
from lakewarden.log.once import WriterBatch as LogOnce
from lakewarden.log.record import UPSERT, log_batch
from lakewarden.maintenance.repair.report import RepairReport
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.client import TableClient
from tests.maintenance.repair.states import FORGOTTEN, HURT, STATES, TABLE, Died, Rows, Scene, State

STREAM = "stream/s"


@dataclass
class Streamed(Scene):
    """Each write is a batch of one stream."""

    batches: int = 0
    written: list[Rows] = field(default_factory=list)

    def write(self, rows: Rows, user: str = HURT) -> None:
        assert self.append(self.batches, rows, user)
        self.batches += 1

    def append(self, number: int, rows: Rows, user: str = HURT) -> bool:
        """Returns whether the batch was appended, not there already."""
        client = self.lake().table(TABLE)
        batch = log_batch(client.table.schema, pa.table({"id": [*rows], "text": [*rows.values()]}), user, UPSERT)
        return client.log.append_once(batch, LogOnce(STREAM, number)) is not None


BEHIND_BOTH = "both restored from backups, the data's the older one"
"""Here the last batch is in neither: the stream repeats it."""


def certain(state: State) -> bool:
    """Whether the write log still has who wrote, and every row that the writer was told of."""
    return state.write == "taken" and state.lost == 0


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name.replace(" ", "-"))
def test_a_stream_goes_on_where_its_rows_are_back_and_stops_where_they_are_not(tmp_path: Path, state: State) -> None:
    scene = Streamed(tmp_path, state.settings)
    scene.begin()
    state.make(scene)
    if state.item == 3:
        scene.put_back(scene.root / f"backup-{scene.cold.name}", scene.cold)
    planned = scene.lake().repair(dry_run=True, restored=state.restored)
    done = scene.lake().repair(restored=state.restored)
    named = {writer.number for one in done for writer in one.writers_uncertain}
    last = {1: "again"}
    if certain(state):
        assert not named
        known = scene.batches - 1 - (state.name == BEHIND_BOTH)
        assert not scene.append(known, last), "it is known"
        assert scene.append(known + 1, last)
    else:
        assert named
        assert {one.writers_uncertain for one in planned} <= {one.writers_uncertain for one in done}
        for number in (scene.batches - 1, scene.batches):
            with pytest.raises(FailedPrecondition, match=STREAM):
                scene.append(number, last)
        scene.lake().table(TABLE).log.resume(STREAM, "skip", scene.batches - 1)
        assert not scene.append(scene.batches - 1, last)
        assert scene.append(scene.batches, last)
    for lake in scene.lakes:
        lake.close()


Damage = Callable[["Direct"], None]
LOG = "app.log"


class Direct:
    """A table without a key, into which one writer appends: batch n has the row n."""

    def __init__(self, root: Path) -> None:
        self.lake = Lakehouse.open(str(root / "w"), settings=FORGOTTEN)
        self.place = root / "w" / "data" / "app" / "log"
        self.lake.create_namespace("app")
        self.table: TableClient = self.lake.create_table(LOG, type="SHARED", columns=[Column("id", "BIGINT")], primary_key=[])
        self.files: list[Path] = []
        for number in range(3):
            self.append(number)
            (new,) = set(self.place.glob("*.parquet")) - set(self.files)
            self.files.append(new)

    def append(self, number: int, writer: str = STREAM) -> bool:
        rows = pa.table({"id": pa.array([number], pa.int64())})
        return not self.table.direct.append([rows], once=WriterBatch(writer, number)).repeated

    def commit(self, version: int) -> Path:
        return self.place / "_delta_log" / f"{version:020d}.json"

    def repaired(self) -> RepairReport:
        (one,) = (one for one in self.lake.repair(LOG) if one.subject == "scope")
        return one

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.table.read().to_pylist())


@pytest.fixture
def direct(tmp_path: Path) -> Iterator[Direct]:
    made = Direct(tmp_path)
    yield made
    made.lake.close()


def torn_newest(direct: Direct) -> None:
    direct.commit(3).write_bytes(b"")


def lost_newest(direct: Direct) -> None:
    direct.commit(3).unlink()


def lost_commits(direct: Direct) -> None:
    for path in direct.place.rglob("*.json"):
        if path.name != "manifest.json":
            path.unlink()


def without_manifest(damage: Damage) -> Damage:
    def made(direct: Direct) -> None:
        damage(direct)
        (direct.place / "manifest.json").unlink()

    return made


def lost_file(direct: Direct) -> None:
    direct.files[1].unlink()


@pytest.mark.parametrize("damage", [torn_newest, lost_newest])
def test_a_direct_writer_goes_on_where_the_manifest_shows_its_last_write(direct: Direct, damage: Damage) -> None:
    damage(direct)
    repaired = direct.repaired()
    assert (repaired.rows_lost, repaired.writers_uncertain, direct.ids()) == (0, (), [0, 1, 2])
    assert not direct.append(2)
    assert direct.append(3)
    assert direct.append(0, "stream/new")


def test_where_all_commits_are_lost_those_go_on_whom_the_manifest_names(direct: Direct) -> None:
    lost_commits(direct)
    repaired = direct.repaired()
    assert [one.name for one in repaired.writers_uncertain] == ["*"]
    assert direct.ids() == [0, 1, 2]
    assert not direct.append(2)
    assert direct.append(3)
    with pytest.raises(FailedPrecondition):
        direct.append(0, "stream/new")


@pytest.mark.parametrize(
    ("damage", "named", "back"),
    [
        (without_manifest(torn_newest), {STREAM: None, "*": None}, [0, 1]),
        (without_manifest(lost_newest), {STREAM: None, "*": None}, [0, 1]),
        (without_manifest(lost_commits), {"*": None}, []),
        (lost_file, {STREAM: 2}, [0]),
    ],
    ids=["torn", "lost", "directory", "file"],
)
def test_a_direct_writer_stops_where_its_last_write_is_not_known(
    direct: Direct, damage: Damage, named: dict[str, int | None], back: list[int]
) -> None:
    damage(direct)
    repaired = direct.repaired()
    assert {one.name: one.number for one in repaired.writers_uncertain} == named
    assert direct.ids() == back
    for number in (0, 2, 3):
        with pytest.raises(FailedPrecondition, match=STREAM):
            direct.append(number)
    with pytest.raises(FailedPrecondition):
        direct.table.direct.last_once(STREAM)
    if "*" in named:
        with pytest.raises(FailedPrecondition):
            direct.append(0, "stream/new")
    else:
        assert direct.append(0, "stream/new")
    assert {one.outcome for one in direct.lake.repair()} == {"skipped"}
    assert all(finding.passed for finding in direct.lake.check())


@pytest.mark.parametrize(("how", "last"), [("repeat", 1), ("skip", 2)])
def test_a_resumed_writer_goes_on_behind_what_is_certain_or_behind_all(direct: Direct, how: str, last: int) -> None:
    without_manifest(lost_newest)(direct)
    direct.repaired()
    direct.table.direct.resume(STREAM, how, 2)  # type: ignore[arg-type]
    assert direct.table.direct.last_once(STREAM) == last
    assert [direct.append(number) for number in (1, 2, 3)] == [False, how == "repeat", True]
    version = direct.table.history(limit=1)
    direct.table.direct.resume(STREAM, how)  # type: ignore[arg-type]
    assert direct.table.history(limit=1) == version, "of a writer that goes on, it changes nothing"


def test_a_second_damage_keeps_what_was_certain_before_the_first(direct: Direct) -> None:
    without_manifest(lost_newest)(direct)
    direct.repaired()
    for path in direct.place.glob("batch-*.parquet"):
        path.unlink()
    direct.repaired()
    direct.table.direct.resume(STREAM, "repeat")
    assert direct.table.direct.last_once(STREAM) in (None, 1)
    assert direct.append(2)


@pytest.fixture
def forgotten(tmp_path: Path) -> Iterator[Streamed]:
    """The rows of a settled batch are in its file alone."""
    scene = Streamed(tmp_path, FORGOTTEN)
    scene.begin()
    yield scene
    for lake in scene.lakes:
        lake.close()


def stopped(scene: Streamed) -> None:
    for number in (scene.batches - 1, scene.batches):
        with pytest.raises(FailedPrecondition, match=STREAM):
            scene.append(number, {9: "x"})


def test_a_stream_stops_where_rows_that_left_the_log_are_lost(forgotten: Streamed) -> None:
    """Wherever the repair dies."""
    for rows in ({1: "a"}, {2: "b"}):
        forgotten.write(rows)
        forgotten.flush()
    forgotten.data_files()[-1].unlink()
    (repaired,) = (one for one in forgotten.lake().repair() if one.outcome == "done")
    assert [(one.name, one.number) for one in repaired.writers_uncertain] == [(writer_key(STREAM), 1)]
    stopped(forgotten)


@pytest.mark.parametrize("beside", [{}, {2: "beside"}])
def test_an_older_row_of_a_key_does_not_stand_for_the_lost_one(forgotten: Streamed, beside: dict[int, str]) -> None:
    """As many rows as before are there; with another one in its file, the older row's number is between the file's."""
    for rows in (beside, {1: "old"}, {1: "new"}):
        if rows:
            forgotten.write(rows)
            forgotten.flush()
    forgotten.data_files()[-1].unlink()
    (repaired,) = (one for one in forgotten.lake().repair() if one.outcome == "done")
    assert (forgotten.read(), repaired.rows_lost) == ({1: "old"} | beside, None), "how many are lost is not known"
    assert repaired.writers_uncertain
    stopped(forgotten)


@pytest.mark.parametrize("number", range(1, 6))
def test_a_repair_that_dies_leaves_no_writer_certain(forgotten: Streamed, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """At its first writes, one after the other."""
    for rows in ({1: "a"}, {2: "b"}):
        forgotten.write(rows)
        forgotten.flush()
    forgotten.data_files()[-1].unlink()
    left = [number]

    def create(self: LocalObjects, key: str, data: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Died(key)
        made(self, key, data)

    made = LocalObjects.create
    monkeypatch.setattr(LocalObjects, "create", create)
    with suppress(Died):
        forgotten.lake().repair()
    monkeypatch.undo()
    done = forgotten.lake().repair()
    assert not [one for one in done if one.fault]
    stopped(forgotten)
    assert {one.outcome for one in forgotten.lake().repair()} == {"skipped"}


def test_a_name_that_holds_a_users_id_is_not_kept_by_the_repair(forgotten: Streamed) -> None:
    """An erasure of that user would have to find it."""
    name = "stream/of u_42"
    client = forgotten.lake().table(TABLE)
    batch = log_batch(client.table.schema, pa.table({"id": [1], "text": ["a"]}), HURT, UPSERT)
    client.log.append_once(batch, LogOnce(name, 0))
    forgotten.flush()
    forgotten.data_files()[-1].unlink()
    lake = forgotten.lake()
    lake.apply(lake.plan("repair", TABLE))
    with pytest.raises(FailedPrecondition, match="u_42"):
        client.log.append_once(batch, LogOnce(name, 0))
    client.log.resume(name, "skip")
    assert not [path for path in forgotten.root.rglob("*") if path.is_file() and b"u_42" in path.read_bytes()]
