"""Places with tables of others as assets: what a run shows, what the check says, and that no name is markup."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import dagster as dg
import pytest

from lakewarden import Lakehouse
from lakewarden.dagster import Surveys, WarehouseComponent, build_definitions
from lakewarden.errors import InvalidArgument
from tests.delta.hand_written import HandWritten
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

EVIL = "<script>alert(1)<"


def _table(path: Path) -> Path:
    table = HandWritten(path)
    table.begin(table.file("1.parquet", [1]), table.file("2.parquet", [2]))
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A sound table, and one that lacks a file, with a hostile name."""
    _table(tmp_path / "others" / "a")
    (_table(tmp_path / "others" / EVIL) / "1.parquet").unlink()
    return tmp_path / "others"


def _only_key(defs: dg.Definitions) -> dg.AssetKey:
    (key,) = (spec.key for spec in defs.resolve_all_asset_specs() if spec.key.path[-1].startswith("survey-"))
    return key


def test_a_run_looks_and_its_check_says_what_is_damaged(warehouse_uri: str, place: Path, instance: dg.DagsterInstance) -> None:
    Lakehouse.open(warehouse_uri).close()
    defs = build_definitions(warehouse_uri, key_prefix=["eu"], surveys=[str(place)])
    key = _only_key(defs)
    assert key.path[0] == "eu"
    assert defs.resolve_schedule_def("eu_survey_daily").cron_schedule == "20 4 * * *"
    run = defs.resolve_job_def("eu_survey_job").execute_in_process(instance=instance)
    (event,) = run.get_asset_materialization_events()
    metadata = {name: one.value for name, one in event.materialization.metadata.items()}
    assert {name: metadata[f"tables{name}"] for name in ("", "/damaged", "/unreadable", "/sound")} == {
        "": 2,
        "/damaged": 1,
        "/unreadable": 0,
        "/sound": 1,
    }
    assert metadata["cost/dollars"] == 0
    assert "hollow" in str(metadata["worst"])
    assert not re.search(r"(?<!\\)[<>]", str(metadata["worst"])), metadata["worst"]
    (check,) = run.get_asset_check_evaluations()
    assert (check.check_name, check.passed, check.asset_key) == ("nothing_damaged", False, key)
    shutil.rmtree(place / EVIL)
    _table(place / "new")
    again = defs.resolve_job_def("eu_survey_job").execute_in_process(instance=instance)
    (event,) = again.get_asset_materialization_events()
    changes = {name: event.materialization.metadata[f"since_last_look/{name}"].value for name in ("new", "changed", "gone")}
    assert changes == {"new": 1, "changed": 0, "gone": 1}
    assert [one.passed for one in again.get_asset_check_evaluations()] == [True]
    with Lakehouse.open(warehouse_uri) as lake:
        assert [one.tables for one in lake.fleet().surveys] == [{"sound": 2}]


def test_a_place_that_cannot_be_listed_fails_the_run(warehouse_uri: str, tmp_path: Path, instance: dg.DagsterInstance) -> None:
    Lakehouse.open(warehouse_uri).close()
    defs = build_definitions(warehouse_uri, surveys=[str(tmp_path / "nowhere")])
    run = defs.resolve_job_def("survey_job").execute_in_process(instance=instance, raise_on_error=False)
    assert not run.success


def test_places_by_component_environment_and_call_are_the_same(
    warehouse_uri: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = build_definitions(warehouse_uri, surveys=Surveys([str(place)], "0 6 * * 1"))
    attributes = {"warehouse": warehouse_uri, "surveys": [str(place)], "survey_cron": "0 6 * * 1"}
    component = WarehouseComponent.from_attributes_dict(attributes=attributes)
    declared = component.build_defs(dg.ComponentTree.for_test().load_context)
    assert _only_key(called) == _only_key(declared)
    assert {one.resolve_schedule_def("survey_daily").cron_schedule for one in (called, declared)} == {"0 6 * * 1"}
    monkeypatch.setenv("LAKEWARDEN_WAREHOUSE", warehouse_uri)
    monkeypatch.setenv("LAKEWARDEN_SURVEYS", f" {place}/ ,")
    assert _only_key(build_definitions()) == _only_key(called)


def test_names_are_dagsters_and_distinct(warehouse_uri: str) -> None:
    places = ["s3://lake/a-b", "s3://lake/a_b", "s3://lake/a-b/", "s3://lake/Größe/<x>"]
    defs = build_definitions(warehouse_uri, surveys=places)
    names = {spec.key.path[-1] for spec in defs.resolve_all_asset_specs() if spec.key.path[-1].startswith("survey-")}
    assert len(names) == 3
    assert all(re.fullmatch(r"survey-[A-Za-z0-9_]+", name) for name in names)
    without = build_definitions(warehouse_uri)
    assert "survey_job" not in {job.name for job in without.get_repository_def().get_all_jobs()}


@pytest.mark.parametrize("surveys", [["s3://key:secret@lake/x"], Surveys(["/data"], "every day")])
def test_what_is_no_place_or_no_time_is_refused(warehouse_uri: str, surveys: Surveys | list[str]) -> None:
    with pytest.raises(InvalidArgument):
        build_definitions(warehouse_uri, surveys=surveys)
