"""A pipeline whose rows a repair did not bring back: it stops, its uploads are named, and on request they are taken again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec import structs

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import LockSettings
from lakewarden.cli.main import main
from lakewarden.errors import FailedPrecondition
from lakewarden.log.once import Resume
from lakewarden.maintenance.repair.report import RepairReport
from lakewarden.storage.local import LocalObjects
from tests.fixtures.patience import PATIENCE
from tests.ingest.pipelines.test_restored import IN_TASKS, Scene, names, take
from tests.ingest.pipelines.uploads import ingest, make, rejects, upload
from tests.maintenance.steps import Died, dies


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path, structs.replace(IN_TASKS, locks=LockSettings(lease_seconds=3)))  # who dies here may hold a lock
    make(made.lake)
    yield made
    made.lake.close()


def data_put_back(scene: Scene) -> None:
    """To before b and c."""
    take(scene, "a")
    put_back = scene.copy("data")
    take(scene, "b", "c")
    put_back()


def repaired(lake: Lakehouse) -> RepairReport:
    (one,) = (one for one in lake.repair(restored=True) if one.subject == "scope" and str(one.scope.table) == "n.t")
    return one


def uploads(one: RepairReport, pipeline_id: str) -> tuple[str, ...]:
    return next(writer.uploads for writer in one.writers_uncertain if writer.name == pipeline_id)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "ingested", "after"), [("repeat", 2, ["a", "b", "c"]), ("skip", 0, ["a"])])
def test_uploads_whose_rows_are_gone_are_taken_on_request(scene: Scene, how: Resume, ingested: int, after: list[str]) -> None:
    data_put_back(scene)
    pipeline = scene.lake.pipelines.all()[0]
    assert uploads(repaired(scene.lake), pipeline.id) == ("b.csv", "c.csv")
    with pytest.raises(FailedPrecondition, match=r"resume"):
        ingest(scene.again())
    upload(scene.lake, {"d.csv": "id,name\n100,d\n"})
    with pytest.raises(FailedPrecondition):
        ingest(scene.again(), "d.csv")
    assert names(scene) == ["a"]
    done = ingest(scene.again(), resume=how)
    assert (done.ingested, names(scene)) == (ingested + 1, [*after, "d"])
    again = ingest(scene.again(), resume=how)
    assert (again.ingested, names(scene)) == (0, [*after, "d"]), "it goes on by itself"
    assert scene.faults() == set()
    assert {one.outcome for one in scene.lake.repair()} == {"skipped"}


@pytest.mark.slow
def test_a_resume_that_dies_is_made_again(scene: Scene) -> None:
    data_put_back(scene)
    repaired(scene.lake)
    for step in ("planned", "batch", "named", "committed", "settled"):
        with pytest.raises(Died):
            ingest(scene.again(), resume="repeat", reach=dies(f"ingest:{step}"))
    ingest(scene.again())
    assert names(scene) == ["a", "b", "c"]


@pytest.mark.slow
def test_a_lost_file_makes_its_pipeline_stop_and_another_go_on(scene: Scene) -> None:
    """What came back is not doubled when all is taken again."""
    scene.lake.sql("CREATE SHARED TABLE n.other FROM TEMPLATE csv")
    take(scene, "a", "b", "c")
    files = sorted((scene.root / "w" / "data" / "n" / "t").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    files[1].unlink()
    pipeline = scene.lake.pipelines.all()[0]
    one = repaired(scene.again())
    assert [(writer.name, writer.number) for writer in one.writers_uncertain] == [(pipeline.id, 6)]
    assert uploads(one, pipeline.id) == tuple(f"{name}.csv" for name in "abc" if name not in names(scene))
    assert "b.csv" in uploads(one, pipeline.id)
    ingest(scene.again(), resume="repeat")
    assert names(scene) == ["a", "b", "c"]
    assert ingest(scene.lake).ingested == 0


@pytest.mark.covering
@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 7))
@pytest.mark.parametrize("part", ["_lakewarden", "data"])
def test_a_repair_that_dies_is_made_again(scene: Scene, monkeypatch: pytest.MonkeyPatch, part: str, number: int) -> None:
    """At its first writes, one after the other."""
    left = [number]

    def create(self: LocalObjects, key: str, data: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Died(key)
        made(self, key, data)

    made = LocalObjects.create
    check_made_again(scene, monkeypatch, part, create)


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["known", ".lakewarden-floor"])
def test_a_repair_that_dies_between_two_floors_is_made_again(scene: Scene, monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    """The state's and the storage's are written at once: here the one is there, and the other never is."""
    written = Event()

    def create(self: LocalObjects, key: str, data: bytes) -> None:
        floor = key.partition("/")[0]
        if floor == lacking:
            assert written.wait(PATIENCE)
            raise Died(key)
        made(self, key, data)
        if floor in ("known", ".lakewarden-floor"):
            written.set()

    made = LocalObjects.create
    check_made_again(scene, monkeypatch, "data", create)


def check_made_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, part: str, create: Callable[[LocalObjects, str, bytes], None]
) -> None:
    take(scene, "a")
    put_back = scene.copy(part)
    take(scene, "b", "c")
    put_back()
    monkeypatch.setattr(LocalObjects, "create", create)
    with suppress(Died):
        scene.lake.repair(restored=True)
    monkeypatch.undo()
    scene.again().repair(restored=True)
    if part == "data":
        with pytest.raises(FailedPrecondition):
            ingest(scene.lake)
    ingest(scene.again(), resume="repeat")
    assert names(scene) == ["a", "b", "c"]
    assert {one.outcome for one in scene.lake.repair()} == {"skipped"}


@pytest.mark.slow
def test_both_from_backups_the_datas_the_older_one(scene: Scene) -> None:
    take(scene, "a")
    data = scene.copy("data")
    take(scene, "b")
    state = scene.copy("_lakewarden")
    take(scene, "c")
    data()
    state()
    pipeline = scene.lake.pipelines.all()[0]
    assert uploads(repaired(scene.lake), pipeline.id) == ("b.csv",)
    ingest(scene.again(), resume="repeat")
    assert names(scene) == ["a", "b", "c"]


@pytest.mark.slow
def test_both_from_backups_the_states_the_older_one(scene: Scene) -> None:
    take(scene, "a")
    state = scene.copy("_lakewarden")
    take(scene, "b")
    data = scene.copy("data")
    take(scene, "c")
    data()
    state()
    scene.lake.repair(restored=True)
    ingest(scene.again())
    assert names(scene) == ["a", "b", "c"]


@pytest.mark.slow
def test_lost_rejects_make_the_pipeline_stop(scene: Scene) -> None:
    take(scene, "a")
    upload(scene.lake, {"bad.csv": "other\n1\n"})
    ingest(scene.lake)
    (file,) = (scene.root / "w" / "data" / "n" / "t_rejects").glob("*.parquet")
    file.unlink()
    scene.again().repair()
    with pytest.raises(FailedPrecondition, match="t_rejects"):
        ingest(scene.again())
    ingest(scene.lake, resume="repeat")
    assert set(rejects(scene.lake)) == {"bad.csv"}
    assert names(scene) == ["a"]


@pytest.mark.slow
def test_the_command_says_what_is_uncertain_and_goes_on_when_told(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    data_put_back(scene)
    pipeline = scene.lake.pipelines.all()[0]
    scene.lake.close()

    def said(*words: str) -> tuple[int, list[dict[str, Any]]]:
        with pytest.raises(SystemExit) as ended:
            main(["--warehouse", str(scene.root / "w"), "--format", "json", *words])
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        return int(ended.value.code or 0), found if isinstance(found, list) else [found["error"]]

    code, reports = said("repair", "--restored")
    (writers,) = (one["writers_uncertain"] for one in reports if one["subject"] == "scope" and one["table"] == "n.t")
    own = next(one for one in writers if one["name"] == pipeline.id)
    assert (code, own["number"], own["uploads"]) == (0, 6, ["b.csv", "c.csv"])
    assert [(code, one["code"]) for code, (one,) in (said("ingest", "n.t"), said("ingest", "n.t", "--resume", "again"))] == [
        (1, "FAILED_PRECONDITION"),
        (1, "INVALID_ARGUMENT"),
    ]
    code, (done,) = said("ingest", "n.t", "--resume", "repeat")
    assert (code, done["ingested"]) == (0, 2)
