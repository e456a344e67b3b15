"""A repair beside the other promises: erasures, deaths in the middle, what is set apart, and how it is reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakewarden import Column
from lakewarden.cli.main import main
from lakewarden.errors import InvalidArgument, LakewardenError, NotFound
from lakewarden.log.objects.log import ObjectLog
from lakewarden.repair import run as run_module
from lakewarden.repair import scope as scope_module
from tests.repair.states import FORGOTTEN, HURT, OTHER, TABLE, Died, Scene

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


STEPS: list[tuple[Any, str]] = [
    (scope_module, "_set_apart"),
    (scope_module, "put_aside"),
    (scope_module, "create_table"),
    (scope_module, "_behind_the_last"),
    (scope_module, "_written"),
    (scope_module, "_commit"),
    (run_module, "repair_scope"),
    (run_module, "raise_floors"),
    (ObjectLog, "note_rewound"),
]


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
