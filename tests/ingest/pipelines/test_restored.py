"""A ledger that is older than its table, or lacks a run: nothing new is taken for old, and nothing old counts twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import PipelinesSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.state.floor import floor_at
from lakewarden.errors import Corrupt, FailedPrecondition, LakewardenError
from lakewarden.log.once import Resume
from tests.ingest.pipelines.states import STATES, Parts, State
from tests.ingest.pipelines.uploads import ingest, make, rejects, table, upload

IN_TASKS = Settings(pipelines=PipelinesSettings(spark_objects=1))


class Scene:
    """A warehouse whose processes remember nothing of each other."""

    def __init__(self, root: Path, settings: Settings = IN_TASKS) -> None:
        self.root = root
        self.settings = settings
        self.lake = self._opened()

    def _opened(self) -> Lakehouse:
        floor_at.cache_clear()
        return Lakehouse.open(str(self.root / "w"), settings=self.settings)

    def again(self) -> Lakehouse:
        self.lake.close()
        self.lake = self._opened()
        return self.lake

    def copy(self, what: str) -> Callable[[], None]:
        """Returns what puts the copy back."""
        there, kept = self.root / "w" / what, self.root / f"copy of {what}"
        shutil.copytree(there, kept)

        def put_back() -> None:
            shutil.rmtree(there)
            shutil.copytree(kept, there)
            self.again()

        return put_back

    def runs(self) -> list[Path]:
        return sorted((self.root / "w" / "_lakewarden" / "pipelines").glob("*/known/*"), key=lambda path: path.name.split("-")[1])

    def faults(self) -> set[str]:
        return {one.check for one in self.lake.check() if not one.passed}


_KEYED_IN_TASKS = pytest.param(("PRIMARY_KEY = (id)", IN_TASKS), marks=pytest.mark.slow, id="keyed in tasks")


@pytest.fixture(params=[pytest.param(("", Settings()), id=""), _KEYED_IN_TASKS])
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    options, settings = request.param
    made = Scene(tmp_path, settings)
    make(made.lake, options)
    yield made
    made.lake.close()


def take(scene: Scene, *names: str) -> None:
    for name in names:
        upload(scene.lake, {f"{name}.csv": f"id,name\n{ord(name)},{name}\n"})
        assert ingest(scene.lake).ingested == 1


def names(scene: Scene) -> list[str]:
    return [str(name) for (name,) in table(scene.lake, "name")]


@pytest.mark.slow
@pytest.mark.covering
@pytest.mark.parametrize("missed", [1, 3, *(pytest.param(number, marks=pytest.mark.slow) for number in (0, 2))])
def test_behind_a_restored_state_every_upload_counts_once(scene: Scene, missed: int) -> None:
    take(scene, "a")
    put_back = scene.copy("_lakewarden")
    take(scene, *"bcd"[:missed])
    put_back()
    if missed:
        assert "ledger" in scene.faults()
    scene.lake.repair(restored=True)

    upload(scene.lake, {"x.csv": "id,name\n1000,x\n", "a.csv": "id,name\n97,A\n"})
    done = ingest(scene.again())
    assert {one.object: one.outcome for one in done.objects}["x.csv"] == "ingested"
    assert names(scene) == sorted(["A", *"bcd"[:missed], "x"])
    again = ingest(scene.again())
    assert (again.ingested, again.batches) == (0, 0), "what was taken behind the repair is known"
    take(scene, "z")
    assert names(scene) == sorted(["A", *"bcd"[:missed], "x", "z"])
    assert scene.faults() == set()
    assert {one.outcome for one in scene.lake.repair()} == {"skipped"}


@pytest.mark.slow
@pytest.mark.parametrize("missed", [1, 3])
def test_a_ledger_that_is_older_than_its_table_is_corrupt(scene: Scene, missed: int) -> None:
    take(scene, "a")
    ledger = scene.copy("_lakewarden/pipelines")
    take(scene, *"bcd"[:missed])
    ledger()
    upload(scene.lake, {"x.csv": "id,name\n1,x\n"})
    with pytest.raises(Corrupt, match="lakewarden repair"):
        ingest(scene.again())
    assert scene.faults() == {"ledger"}
    (planned,) = (one for one in scene.lake.repair(dry_run=True) if one.subject == "ledger")
    assert planned.outcome == "planned"
    with pytest.raises(Corrupt):
        ingest(scene.again())
    (done,) = (one for one in scene.lake.repair() if one.subject == "ledger")
    assert (done.outcome, done.reason) == ("done", planned.reason)
    ingest(scene.again())
    assert names(scene) == sorted(["a", *"bcd"[:missed], "x"])


@pytest.mark.slow
@pytest.mark.covering
@pytest.mark.parametrize("which", [0, 2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("damage", ["lost", "cut off"])
def test_without_a_run_each_object_is_taken_again_in_place_of_its_rows(scene: Scene, which: int, damage: str) -> None:
    take(scene, "a", "b", "c")
    run = scene.runs()[which]
    if damage == "lost":
        run.unlink()
    else:
        run.write_bytes(run.read_bytes()[:-1])
    assert scene.faults() == {"ledger"}
    if damage == "lost":
        upload(scene.lake, {"x.csv": "id,name\n1,x\n"})
        with pytest.raises(Corrupt):
            ingest(scene.again())
    assert [one.outcome for one in scene.lake.repair() if one.subject == "ledger"] == ["done"]
    upload(scene.lake, {"b.csv": "id,name\n98,B\n"})
    assert ingest(scene.again()).ingested == 3 + (damage == "lost")
    assert names(scene) == sorted(["a", "B", "c", *("x" if damage == "lost" else "")])
    assert scene.faults() == set()
    assert {one.outcome for one in scene.lake.repair()} == {"skipped"}


@pytest.mark.slow
def test_an_entry_that_is_torn_is_void_behind_a_repair(scene: Scene) -> None:
    take(scene, "a")
    entries = next((scene.root / "w" / "_lakewarden" / "pipelines").glob("*")) / "entries"
    (entries / f"{3:020d}").write_bytes(b"{")
    assert scene.faults() == {"ledger"}
    scene.lake.repair()
    take_again = ingest(scene.again())
    assert take_again.ingested == 1
    assert names(scene) == ["a"]


@pytest.mark.slow
def test_objects_that_may_have_been_taken_come_in_their_order(tmp_path: Path) -> None:
    """Of a table with a key a later object wins, in whatever batches they are taken again."""
    scene = Scene(tmp_path, Settings(pipelines=PipelinesSettings(batch_objects=1)))
    make(scene.lake, "PRIMARY_KEY = (id)")
    upload(scene.lake, {"z.csv": "id,name\n1,old\n"})
    ingest(scene.lake)
    upload(scene.lake, {"a.csv": "id,name\n1,new\n"})
    ingest(scene.lake)
    scene.runs()[0].unlink()
    scene.lake.repair()
    assert ingest(scene.again()).ingested == 2
    assert names(scene) == ["new"]
    scene.lake.close()


@pytest.mark.slow
def test_rejects_have_numbers_of_their_own(scene: Scene) -> None:
    """The table of rejects alone remembers what came behind the backup of all else."""
    take(scene, "a")
    state, data = scene.copy("_lakewarden"), scene.copy("data/n/t")
    upload(scene.lake, {"bad.csv": "other\n1\n"})
    assert ingest(scene.lake).rejected == 1
    data()
    state()
    scene.lake.repair(restored=True)
    upload(scene.lake, {"worse.csv": "other\n1\n"})
    ingest(scene.again())
    assert set(rejects(scene.lake)) == {"bad.csv", "worse.csv"}
    assert names(scene) == ["a"]


@pytest.mark.slow
def test_a_table_without_the_hidden_column_stops(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    make(scene.lake)
    take(scene, "a", "b")
    scene.lake.sql("ALTER TABLE n.t DROP COLUMN _object")
    take(scene, "c")
    scene.runs()[1].unlink()
    scene.lake.repair()
    with pytest.raises(FailedPrecondition, match="_object"):
        ingest(scene.again())
    assert names(scene) == ["a", "b", "c"]
    assert ingest(scene.again(), resume="skip").ingested == 0
    take(scene, "d")
    assert names(scene) == ["a", "b", "c", "d"]
    scene.lake.close()


@pytest.mark.slow
def test_a_table_without_the_hidden_column_takes_all_again_on_request(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    make(scene.lake)
    take(scene, "a", "b")
    scene.lake.sql("ALTER TABLE n.t DROP COLUMN _object")
    scene.runs()[1].unlink()
    scene.lake.repair()
    assert ingest(scene.again(), resume="repeat").ingested == 1
    assert names(scene) == ["a", "b", "b"]
    assert ingest(scene.again()).ingested == 0
    scene.lake.close()


@pytest.mark.parametrize(("how", "after"), [("repeat", ["B", "a", "b", "c"]), ("skip", ["a", "b", "c"])])
def test_a_new_version_cannot_replace_rows_without_the_hidden_column(tmp_path: Path, how: Resume, after: list[str]) -> None:
    scene = Scene(tmp_path)
    make(scene.lake)
    take(scene, "a", "b")
    scene.lake.sql("ALTER TABLE n.t DROP COLUMN _object")
    upload(scene.lake, {"b.csv": "id,name\n98,B\n", "c.csv": "id,name\n99,c\n"})
    with pytest.raises(FailedPrecondition, match=r"b\.csv"):
        ingest(scene.lake)
    ingest(scene.lake, resume=how)
    assert names(scene) == after
    assert ingest(scene.lake).ingested == 0
    scene.lake.close()


@pytest.mark.slow
def test_objects_that_are_named_come_in_their_order_too(tmp_path: Path) -> None:
    """As a sensor names them, some at a time."""
    scene = Scene(tmp_path)
    make(scene.lake, "PRIMARY_KEY = (id)")
    for key, text in (("z.csv", "old"), ("a.csv", "new")):
        upload(scene.lake, {key: f"id,name\n1,{text}\n"})
        ingest(scene.lake)
    scene.runs()[1].unlink()
    scene.lake.repair()
    for key in ("a.csv", "z.csv"):
        ingest(scene.again(), key, force=False)
    assert names(scene) == ["new"]
    scene.lake.close()


@pytest.mark.slow
def test_a_state_from_before_the_first_object(scene: Scene) -> None:
    put_back = scene.copy("_lakewarden")
    take(scene, "a", "b")
    put_back()
    upload(scene.lake, {"c.csv": "id,name\n99,c\n"})
    with pytest.raises(Corrupt):
        ingest(scene.lake)
    scene.lake.repair(restored=True)
    ingest(scene.again())
    assert names(scene) == ["a", "b", "c"]


def said_by_ingest(scene: Scene) -> str:
    try:
        ingest(scene.lake)
    except LakewardenError as error:
        return error.code
    return "done"


@pytest.mark.covering
@pytest.mark.slow
@pytest.mark.parametrize("how", ["repeat", "skip"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name.replace(" ", "-"))
def test_each_state_is_seen_and_behind_its_repair_nothing_counts_twice(tmp_path: Path, state: State, how: Resume) -> None:
    scene, parts = Scene(tmp_path), Parts(tmp_path / "w", tmp_path / "copies")
    make(scene.lake)
    take(scene, "a")
    for part in ("_lakewarden", "data"):
        shutil.copytree(parts.warehouse / part, parts.copies / part)
    take(scene, "b", "c")
    state.make(parts)
    scene.again()
    assert scene.faults()
    upload(scene.lake, {"d.csv": "id,name\n100,d\n"})
    assert said_by_ingest(scene) == state.ingest
    scene.again().repair(restored=state.restored)
    scene.again()
    kept, new = names(scene), ["d"] if state.ingest == "CORRUPT" else []
    if state.stops:
        with pytest.raises(FailedPrecondition):
            ingest(scene.lake)
        ingest(scene.lake, resume=how)
    else:
        ingest(scene.lake)
    assert names(scene) == (["a", "b", "c", "d"] if not state.stops or how == "repeat" else [*kept, *new])
    assert ingest(scene.lake).ingested == 0
    assert scene.faults() == set()
    assert {one.outcome for one in scene.again().repair()} == {"skipped"}
    scene.lake.close()
