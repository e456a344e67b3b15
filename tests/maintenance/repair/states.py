"""Damaged warehouses: how each state comes about, what each operation reports, and what is left after a repair.

The tests run this list, and docs/reference/damage.md is generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import ON_STORAGES
from lakewarden.maintenance.engine import WorkEngine, silent
from lakewarden.maintenance.flush.run import flush_scopes
from lakewarden.maintenance.flush_task import FlushTask
from tests.fixtures.bucket import AnyPath, copy_tree, remove_tree

TABLE = "chat.notes"
HURT, OTHER = "u_1", "u_2"
"""The user whose scope is damaged, and one beside them."""

Rows = dict[int, str]
Says = Literal["rows", "older rows", "taken", "done", "passes", "CORRUPT", "STORAGE_UNAVAILABLE", "NOT_FOUND"]

KEPT = Settings(log=LogSettings(retention_seconds=3600))
FORGOTTEN = Settings(log=LogSettings(retention_seconds=0))
CARRIED = Settings(log=LogSettings(carry_below=1))
"""What no flush has taken leaves its segment at once."""


class Died(BaseException):
    """The process was killed here."""


@dataclass
class Scene:
    """A warehouse whose one USER table is on a storage of its own, so that either can be rolled back alone."""

    root: AnyPath
    settings: Settings = KEPT
    lakes: list[Lakehouse] = field(default_factory=list)

    @property
    def warehouse(self) -> AnyPath:
        return self.root / "warehouse"

    @property
    def cold(self) -> AnyPath:
        """The base of the storage."""
        return self.root / "cold"

    @property
    def state(self) -> AnyPath:
        return self.warehouse / "_lakewarden"

    def scope(self, user: str = HURT) -> AnyPath:
        return self.cold / "chat" / "notes" / user

    def lake(self) -> Lakehouse:
        """A new process, which remembers nothing of floors."""
        floor_at.cache_clear()
        self.lakes.append(Lakehouse.open(str(self.warehouse), settings=self.settings))
        return self.lakes[-1]

    def begin(self) -> None:
        lake = self.lake()
        kind = "s3" if "://" in str(self.cold) else "filesystem"
        lake.create_storage("cold", type=kind, base=str(self.cold))
        lake.create_namespace("chat")
        columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
        lake.create_table(TABLE, type="USER", columns=columns, primary_key=["id"], options={"STORAGE_ID": "cold"})

    def write(self, rows: Rows, user: str = HURT) -> None:
        self.lake().table(TABLE).write([{"id": key, "text": text} for key, text in rows.items()], user=user)

    def delete(self, *keys: int, user: str = HURT) -> None:
        self.lake().table(TABLE).delete([{"id": key} for key in keys], user=user)

    def flush(self) -> None:
        reports = self.lake().flush(TABLE)
        assert all(report.fault is None for report in reports), reports

    def flush_and_die(self, step: str) -> None:
        """A flush that is killed at this step."""

        def reach(name: str) -> None:
            if name == step:
                raise Died(name)

        warehouse = self.lake().warehouse
        try:
            flush_scopes(warehouse, WorkEngine(self.settings, silent, None).run, _no_large, lambda scope: True, reach=reach)
        except Died:
            return
        raise AssertionError(f"no flush reaches {step}")

    def read(self, user: str = HURT) -> Rows:
        return {row["id"]: row["text"] for row in self.lake().table(TABLE).read(user=user).to_pylist()}

    def commits(self, user: str = HURT) -> list[AnyPath]:
        return sorted((self.scope(user) / "_delta_log").glob("*.json"))

    def checkpoints(self, user: str = HURT) -> list[AnyPath]:
        return sorted((self.scope(user) / "_delta_log").glob("*.checkpoint.parquet"))

    def data_files(self, user: str = HURT) -> list[AnyPath]:
        return sorted(self.scope(user).glob("batch-*.parquet"), key=lambda path: int(path.name.split("-")[1]))

    def segments(self) -> list[AnyPath]:
        return sorted(self.state.glob("log/*/segments/*"))

    def cuts(self) -> list[AnyPath]:
        return sorted(self.state.glob("log/*/cuts/*"))

    def copy(self, what: AnyPath) -> AnyPath:
        """A backup."""
        backup = self.root / f"backup-{what.name}"
        copy_tree(what, backup)
        return backup

    def put_back(self, backup: AnyPath, what: AnyPath) -> None:
        remove_tree(what)
        copy_tree(backup, what)


def _no_large(task: FlushTask) -> ScopeReport:
    raise AssertionError(f"{task.target.scope} is not large")


@dataclass(frozen=True)
class State:
    """One way to be damaged, and what must hold. `read`, `write`, `flush`, `check`: what these report before the repair."""

    name: str
    item: int
    """The line of the observed damage."""
    make: Callable[[Scene], None]
    after: Rows
    """The rows of the damaged scope after the repair and a flush; the other user's never change."""
    read: Says = "CORRUPT"
    write: Says = "taken"
    flush: Says = "CORRUPT"
    check: Says = "CORRUPT"
    restored: bool = False
    """Whether the repair is `repair --restored`."""
    lost: int | None = 0
    """How many rows the repair reports as lost; None where the number cannot be known."""
    both: bool = False
    """Whether the state is tested on an object store too."""
    why: str = ""
    """The reason for what is lost, or for an answer that is not CORRUPT."""
    settings: Settings = KEPT


def _torn_first(scene: Scene) -> None:
    scene.write({1: "a", 2: "b"})
    scene.flush_and_die("after-commits")
    scene.commits()[0].write_bytes(b"")


def _torn_later(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    scene.flush_and_die("after-commits")
    scene.commits()[-1].write_bytes(scene.commits()[-1].read_bytes()[:40])


def _torn_settled(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    scene.flush()
    scene.commits()[-1].write_bytes(b"")


def _torn_file(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    scene.flush_and_die("after-commits")
    last = scene.data_files()[-1]
    last.write_bytes(last.read_bytes()[:10])


def _lost_file(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b", 3: "c"})
    scene.flush()
    scene.data_files()[-1].unlink()


def _unmounted(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    scene.copy(scene.cold)
    remove_tree(scene.cold)
    scene.cold.mkdir()


def _lost_segment(scene: Scene) -> None:
    for key in (1, 2, 3):
        scene.write({key: "a"})
    scene.segments()[-2].unlink()  # on an object store, a few that are settled stay before these


def _garbled_chunk(scene: Scene) -> None:
    """The other user's rows in the same segment are whole."""
    rows = [{"id": 1, "text": "first text", "who": HURT}, {"id": 102, "text": "another text", "who": OTHER}]
    scene.lake().table(TABLE).write(rows, user_column="who")
    scene.write({2: "b"})
    _turn_a_bit(scene, b"first text")


def _garbled_carry(scene: Scene) -> None:
    """What was garbled in a segment is so where it was carried; another row was garbled there."""
    scene.write({1: "first text"})
    scene.write({2: "second text"})
    scene.write({101: "mine too"}, OTHER)
    _turn_a_bit(scene, b"first text")
    scene.lake().flush(TABLE, user=OTHER)
    _turn_a_bit(scene, b"second text")
    scene.write({3: "c"})


def _garbled_history(scene: Scene) -> None:
    """The rows that a lost data file had are garbled in the history too, and those of an earlier one are not."""
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "second text"})
    scene.flush()
    scene.data_files()[-1].unlink()
    _turn_a_bit(scene, b"second text")


def _turn_a_bit(scene: Scene, text: bytes) -> None:
    """Of a text in whichever object of the log has it now."""
    objects = (path for path in (scene.state / "log").rglob("*") if path.is_file())
    for path in [each for each in objects if text in each.read_bytes()]:
        path.write_bytes(path.read_bytes().replace(text, bytes([text[0] ^ 1]) + text[1:]))


def _refilled_segment(scene: Scene) -> None:
    table = scene.lake().table(TABLE)
    table.write([{"id": 1, "text": "a"}], user=HURT)
    for key in (2, 3):
        scene.write({key: "a"})
    scene.segments()[1].unlink()
    table.write([{"id": 4, "text": "a"}], user=HURT)  # it remembers that position 1 follows its own


def _lost_cut(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    scene.flush()
    scene.cuts()[-1].unlink()


def _lost_cut_and_pending(scene: Scene) -> None:
    """The other user's rows were carried by that cut; newer ones follow it."""
    scene.write({1: "a"})
    scene.write({102: "carried"}, OTHER)
    scene.lake().flush(TABLE, user=HURT)
    scene.write({2: "b"})
    scene.lake().flush(TABLE, user=HURT)
    scene.write({3: "c"})
    scene.cuts()[-1].unlink()


def _state_rolled_back(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    backup = scene.copy(scene.state)
    scene.write({2: "b"})
    scene.flush()
    scene.put_back(backup, scene.state)


def _data_rolled_back(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    backup = scene.copy(scene.cold)
    scene.write({2: "b"})
    scene.delete(1)
    scene.flush()
    scene.put_back(backup, scene.cold)


def _both_rolled_back(scene: Scene) -> None:
    """The state to an older moment than the data; row 3 was written after both."""
    scene.write({1: "a"})
    scene.flush()
    state = scene.copy(scene.state)
    scene.write({2: "b"})
    scene.flush()
    data = scene.copy(scene.cold)
    scene.write({3: "c"})
    scene.flush()
    scene.put_back(state, scene.state)
    scene.put_back(data, scene.cold)


def _both_rolled_back_data_further(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    data = scene.copy(scene.cold)
    scene.write({2: "b"})
    scene.flush()
    state = scene.copy(scene.state)
    scene.write({3: "c"})
    scene.flush()
    scene.put_back(state, scene.state)
    scene.put_back(data, scene.cold)


def _lost_commit(scene: Scene) -> None:
    scene.write({1: "a", 2: "b"})
    scene.flush()
    scene.write({3: "c"})
    scene.delete(1)
    scene.flush()
    scene.commits()[-1].unlink()


def _lost_commit_and_manifest(scene: Scene) -> None:
    _lost_commit(scene)
    (scene.scope() / "manifest.json").unlink()


def _lost_directory(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    remove_tree(scene.scope())


def _older_scope(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    backup = scene.copy(scene.scope())
    scene.write({2: "b"})
    scene.flush()
    scene.put_back(backup, scene.scope())


def _bad_checkpoint(scene: Scene) -> None:
    for key in range(11):
        scene.write({key: "a"})
        scene.flush()
    (checkpoint,) = scene.checkpoints()
    checkpoint.write_bytes(checkpoint.read_bytes()[:20])


def _lost_checkpoint(scene: Scene) -> None:
    for key in range(11):
        scene.write({key: "a"})
        scene.flush()
    (checkpoint,) = scene.checkpoints()
    checkpoint.unlink()


def _copied_over(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.put_back(scene.scope(OTHER), scene.scope())


def _cut_off(objects: Iterable[AnyPath]) -> None:
    for path in objects:
        path.write_bytes(path.read_bytes()[:40])


def _floor_in_state(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    _cut_off([max(scene.state.glob("known/*/*"))])


def _floor_on_storage(scene: Scene) -> None:
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    _cut_off([max(scene.cold.glob(f"{ON_STORAGES}/*/*"))])


def _floors(scene: Scene) -> None:
    """Both copies of every note."""
    scene.write({1: "a"})
    scene.flush()
    scene.write({2: "b"})
    _cut_off([*scene.state.glob("known/*/*"), *scene.cold.glob(f"{ON_STORAGES}/*/*")])


def _floors_and_newest_commit(scene: Scene) -> None:
    """The log's history has the rows that the lost version had."""
    _lost_commit(scene)
    _cut_off([*scene.state.glob("known/*/*"), *scene.cold.glob(f"{ON_STORAGES}/*/*")])


_AB, _ABC = {1: "a", 2: "b"}, {1: "a", 2: "b", 3: "c"}
_ELEVEN = dict.fromkeys(range(11), "a")

STATES = (
    State("an empty first commit, its rows still in the log", 1, _torn_first, _AB, read="rows"),
    State("a commit that was cut off, its rows still in the log", 1, _torn_later, _AB, read="rows"),
    State("an empty commit whose rows were settled", 1, _torn_settled, _AB),
    State("a data file cut off after a whole commit, its rows still in the log", 2, _torn_file, _AB),
    State("a data file lost, its rows in the log's history", 2, _lost_file, _ABC, flush="done", why="new rows need no lost file"),
    State(
        "a data file lost, its rows forgotten",
        2,
        _lost_file,
        {1: "a"},
        flush="done",
        lost=2,
        why="no other copy was kept",
        settings=FORGOTTEN,
    ),
    State(
        "a storage that is not mounted",
        3,
        _unmounted,
        _AB,
        read="STORAGE_UNAVAILABLE",
        flush="STORAGE_UNAVAILABLE",
        check="STORAGE_UNAVAILABLE",
        why="the storage is away, and nothing is damaged: mount it",
    ),
    State(
        "a segment of the log lost",
        5,
        _lost_segment,
        {1: "a", 3: "a"},
        write="CORRUPT",
        lost=1,
        why="the segment was their only copy",
        both=True,
    ),
    State(
        "a user's rows in a segment garbled",
        5,
        _garbled_chunk,
        {2: "b"},
        lost=1,
        why="the segment was their only copy; all others read, write and flush as before",
        both=True,
    ),
    State(
        "a user's rows garbled in a segment and where others were carried",
        5,
        _garbled_carry,
        {3: "c"},
        lost=2,
        why="they were their only copies; all others read, write and flush as before",
        settings=CARRIED,
    ),
    State(
        "a data file lost, its rows garbled in the log's history",
        5,
        _garbled_history,
        {1: "a"},
        flush="done",
        lost=1,
        why="no whole copy was kept",
    ),
    State(
        "a segment lost, and its position taken again",
        5,
        _refilled_segment,
        {1: "a", 3: "a", 4: "a"},
        lost=1,
        why="the segment was their only copy; a writer only checks names, and what it writes is kept by the repair",
    ),
    State("the newest cut lost", 6, _lost_cut, _AB, write="CORRUPT", flush="done", why="nothing is pending"),
    State(
        "the newest cut lost, rows above it and rows that it carried",
        6,
        _lost_cut_and_pending,
        _ABC,
        write="CORRUPT",
        settings=CARRIED,
        both=True,
    ),
    State(
        "the state restored from an older backup",
        6,
        _state_rolled_back,
        _AB,
        write="CORRUPT",
        flush="done",
        restored=True,
        why="nothing is pending",
        both=True,
    ),
    State("the data restored from an older backup", 6, _data_rolled_back, {2: "b"}, restored=True, both=True),
    State(
        "the data restored from an older backup, the history forgotten",
        6,
        _data_rolled_back,
        {},
        restored=True,
        lost=None,
        why="a row that may have been deleted is set apart; the row written since is lost with its file",
        settings=FORGOTTEN,
    ),
    State(
        "both restored from backups, the state's the older one",
        6,
        _both_rolled_back,
        _AB,
        write="CORRUPT",
        flush="done",
        restored=True,
        why="nothing is pending; what came after both backups is in neither",
    ),
    State(
        "both restored from backups, the data's the older one",
        6,
        _both_rolled_back_data_further,
        _AB,
        restored=True,
        why="what came after both backups is in neither",
    ),
    State("the newest commit lost", 7, _lost_commit, {2: "b", 3: "c"}, both=True),
    State("the newest commit lost, the history forgotten", 7, _lost_commit, {2: "b", 3: "c"}, settings=FORGOTTEN),
    State("the newest commit and the manifest lost", 7, _lost_commit_and_manifest, {2: "b", 3: "c"}),
    State("the directory of a scope lost", 7, _lost_directory, {1: "a"}, both=True),
    State(
        "the directory of a scope lost, the history forgotten",
        7,
        _lost_directory,
        {},
        lost=1,
        why="no other copy was kept",
        settings=FORGOTTEN,
    ),
    State("the directory of a scope replaced by an older copy", 7, _older_scope, _AB),
    State("a checkpoint that cannot be read", 8, _bad_checkpoint, _ELEVEN, read="rows", flush="done"),
    State("a checkpoint lost", 8, _lost_checkpoint, _ELEVEN, read="rows", flush="done"),
    State("a scope's directory copied over another's", 9, _copied_over, {1: "a"}, both=True),
    State("a note of the floor in the state cut off", 6, _floor_in_state, _AB, both=True),
    State(
        "a note of the floor on a storage cut off",
        6,
        _floor_on_storage,
        _AB,
        read="rows",
        flush="done",
        both=True,
        why="a flush reads no note there, but for joining it with others: then it is CORRUPT",
    ),
    State("every note of both floors cut off", 6, _floors, _AB, both=True),
    State("every note of both floors cut off, and the newest commit lost", 6, _floors_and_newest_commit, {2: "b", 3: "c"}),
)
