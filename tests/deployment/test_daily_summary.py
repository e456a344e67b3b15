"""The summary of the demo's flights: it runs when a flush has changed them, reads what changed, and checks what it wrote."""

from __future__ import annotations

from datetime import date

import dagster as dg
import pytest

from lakewarden.client import Lakehouse
from tests.deployment.conftest import Load, fly
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

KEY = dg.AssetKey("daily_summary")


def summarize(defs: dg.Definitions, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    job = defs.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, asset_selection=[KEY])


def requested(
    defs: dg.Definitions, instance: dg.DagsterInstance, before: dg.EvaluateAutomationConditionsResult | None = None
) -> dg.EvaluateAutomationConditionsResult:
    """What the sensor `automation` would start now."""
    ours = dg.AssetSelection.assets(KEY)
    return dg.evaluate_automation_conditions(defs, instance, ours, cursor=before.cursor if before else None)


def days_of(uri: str, user: str) -> dict[date, int]:
    with Lakehouse.open(uri) as lake:
        rows = lake.table("nyc.daily_summary").read(user=user).to_pylist()
    return {row["day"]: row["flights"] for row in rows}


def book(defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    assert defs.resolve_job_def("record_job").execute_in_process(instance=instance).success


def written(result: dg.ExecuteInProcessResult) -> dict[str, object]:
    (event,) = result.asset_materializations_for_node("daily_summary")
    return {name: value.value for name, value in event.metadata.items()}


NEW_YEAR, NEXT = date(2013, 1, 1), date(2013, 1, 2)


def test_a_flush_requests_a_run_that_reads_the_changed_aircraft_alone(load: Load, nyc: str, instance: dg.DagsterInstance) -> None:
    defs = load(nyc)
    book(defs, instance)
    first = written(summarize(defs, instance))
    assert (first["aircraft"], first["days written"]) == (2, 4)
    assert days_of(nyc, "N1") == {NEW_YEAR: 2, NEXT: 1}
    quiet = requested(defs, instance)
    quiet = requested(defs, instance, quiet)
    assert quiet.get_num_requested(KEY) == 0
    fly(nyc, "N2", (2, 20), flush=False)
    flush = defs.resolve_job_def("flush_job")
    form = {"ops": {"flush": {"config": {"tables": ["nyc.flights"]}}}}
    assert flush.execute_in_process(run_config=form, instance=instance).success
    after = requested(defs, instance, quiet)
    assert after.get_num_requested(KEY) == 1
    second = written(summarize(defs, instance))
    assert (second["aircraft"], second["days written"]) == (1, 2), "the other has not changed"
    assert days_of(nyc, "N2") == {NEW_YEAR: 2, NEXT: 2}
    assert written(summarize(defs, instance))["aircraft"] == 0


@pytest.mark.slow
def test_a_day_without_flights_leaves_the_summary(load: Load, nyc: str, instance: dg.DagsterInstance) -> None:
    defs = load(nyc)
    book(defs, instance)
    summarize(defs, instance)
    with Lakehouse.open(nyc) as lake:
        flights = lake.table("nyc.flights")
        later = [row for row in flights.read(user="N1").to_pylist() if row["day"] == 2]
        flights.delete([{name: row[name] for name in ("time_hour", "carrier", "flight")} for row in later], user="N1")
    form = {"ops": {"flush": {"config": {"tables": ["nyc.flights"]}}}}
    assert defs.resolve_job_def("flush_job").execute_in_process(run_config=form, instance=instance).success
    summarize(defs, instance)
    assert days_of(nyc, "N1") == {NEW_YEAR: 2}
    assert days_of(nyc, "N2") == {NEW_YEAR: 2, NEXT: 1}


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "passed"), [(10, True), (5_000, False)])
def test_an_implausible_delay_is_a_warning(load: Load, nyc: str, instance: dg.DagsterInstance, delay: int, passed: bool) -> None:
    fly(nyc, "N2", (3, 8), delay=delay)
    defs = load(nyc)
    book(defs, instance)
    judged = {one.check_name: one for one in summarize(defs, instance).get_asset_check_evaluations()}
    assert judged["delays_are_plausible"].passed is passed
    assert judged["delays_are_plausible"].severity is dg.AssetCheckSeverity.WARN
    assert judged["flights_add_up"].passed


@pytest.mark.slow
def test_days_that_do_not_add_up_are_an_error(
    load: Load, nyc: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assets import daily_summary as module

    whole = module._days
    monkeypatch.setattr(module, "_days", lambda flights: whole(flights.slice(0, flights.num_rows - 1)))
    defs = load(nyc)
    book(defs, instance)
    judged = {one.check_name: one for one in summarize(defs, instance).get_asset_check_evaluations()}
    assert not judged["flights_add_up"].passed
    assert judged["flights_add_up"].severity is dg.AssetCheckSeverity.ERROR
    assert judged["flights_add_up"].metadata["aircraft that do not"].value == "N1, N2"


@pytest.mark.slow
def test_an_erased_aircraft_has_no_days_and_gets_none_again(load: Load, nyc: str, instance: dg.DagsterInstance) -> None:
    defs = load(nyc)
    book(defs, instance)
    summarize(defs, instance)
    with Lakehouse.open(nyc) as lake:
        assert lake.erase("N1").result == "complete"
    fly(nyc, "N2", (3, 8), flush=False)
    form = {"ops": {"flush": {"config": {"tables": ["nyc.flights"]}}}}
    assert defs.resolve_job_def("flush_job").execute_in_process(run_config=form, instance=instance).success
    summarize(defs, instance)
    with Lakehouse.open(nyc) as lake:
        assert not lake.verify_erased("N1").findings
    assert days_of(nyc, "N2") == {NEW_YEAR: 2, NEXT: 1, date(2013, 1, 3): 1}
