"""Plans of repairs: what a dry run showed is what is repaired, and nothing that has changed since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden.catalog.report import ScopeReport
from lakewarden.cli.main import main
from lakewarden.maintenance.plans.value import Plan
from tests.maintenance.repair.states import HURT, OTHER, TABLE, Scene
from tests.maintenance.repair.test_repair import lose_commit, scene

__all__ = ["scene"]
pytestmark = pytest.mark.disk


def _outcomes(reports: list[ScopeReport]) -> list[tuple[str | None, str]]:
    return [(report.scope.user, report.fault.code if report.fault else report.outcome) for report in reports]


def test_what_was_planned_is_repaired_once(scene: Scene) -> None:
    lose_commit(scene)
    lake = scene.lake()
    plan = lake.plan("repair", TABLE)
    assert [(line.user, line.parameters["subject"]) for line in plan.scopes] == [(HURT, "scope")]
    before = scene.commits()
    (done,) = lake.apply(Plan.from_json(plan.to_json()))
    assert (done.scope.user, done.outcome, done.metrics["rows_recovered"]) == (
        HURT,
        "done",
        plan.scopes[0].metrics["rows_recovered"],
    )
    assert len(scene.commits()) > len(before)
    after = scene.commits()
    assert _outcomes(lake.apply(plan)) == [(HURT, "skipped")], "it is sound by now"
    assert scene.commits() == after


def test_a_scope_whose_damage_has_changed_is_refused(scene: Scene) -> None:
    lose_commit(scene)
    lake = scene.lake()
    plan = lake.plan("repair", TABLE)
    scene.commits()[-1].write_bytes(b"")
    left = scene.commits()
    assert _outcomes(lake.apply(plan)) == [(HURT, "CONFLICT")]
    assert scene.commits() == left


def test_what_was_not_planned_stays_damaged(scene: Scene) -> None:
    for user in (HURT, OTHER):
        for number in (1, 2):
            scene.lake().table(TABLE).write([{"id": number, "text": "x"}], user=user)
            scene.flush()
    scene.commits(HURT)[-1].write_bytes(b"")
    plan = scene.lake().plan("repair", TABLE)
    torn = scene.commits(OTHER)[-1]
    torn.write_bytes(b"")
    assert _outcomes(scene.lake().apply(plan)) == [(HURT, "done")]
    assert torn.read_bytes() == b""
    assert [line.user for line in scene.lake().plan("repair", TABLE).scopes] == [OTHER]


def test_a_table_that_was_dropped_is_refused(scene: Scene) -> None:
    lose_commit(scene)
    lake = scene.lake()
    plan = lake.plan("repair", TABLE)
    lake.drop_table(TABLE)
    assert _outcomes(lake.apply(plan)) == [(HURT, "CONFLICT")]


def test_a_lost_position_is_planned_before_the_scopes(scene: Scene) -> None:
    for number in (1, 2, 3):
        scene.write({number: "x"})
    lake = scene.lake()
    (segment,) = list(Path(lake.warehouse.state.uri).glob("log/*/segments/*1"))
    segment.unlink()
    plan = lake.plan("repair", TABLE)
    assert [(line.user, line.parameters["subject"]) for line in plan.scopes] == [(None, "log")]
    assert _outcomes(lake.apply(plan)) == [(None, "done")]
    assert lake.plan("repair", TABLE).scopes == ()


def test_the_command_names_the_plan(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    lose_commit(scene)

    def said(*arguments: str) -> dict[str, object]:
        with pytest.raises(SystemExit):
            main(["--warehouse", str(scene.warehouse), "--format", "json", *arguments])
        (row,) = json.loads(capsys.readouterr().out)
        return dict(row)

    planned = said("repair", TABLE, "--dry-run")
    assert planned["outcome"] == "planned"
    done = said("apply", str(planned["plan_id"]))
    assert (done["operation"], done["outcome"]) == ("repair", "done")
