"""A tenant comes and leaves: each step says what it did, or would do; what left is proven, and Dagster forgets it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyarrow import fs

from lakewarden.client import Lakehouse
from tests.dagster.jobs.test_erase import naming
from tests.deployment.conftest import Load, fly
from tests.fixtures.dagster import DAGSTER

pytestmark = [*DAGSTER, pytest.mark.slow]

USER = "zoe's-1f9c77"


def run(
    defs: dg.Definitions, job: str, instance: dg.DagsterInstance, form: Mapping[str, object], *, succeeds: bool = True
) -> dict[str, Mapping[str, object]]:
    """Launches the job with this form, and returns what each of its steps said."""
    result = defs.resolve_job_def(job).execute_in_process(run_config=dict(form), instance=instance, raise_on_error=False)
    assert result.success is succeeds
    return dict(_said(result))


def _said(result: dg.ExecuteInProcessResult) -> Iterator[tuple[str, Mapping[str, object]]]:
    for event in result.all_node_events:
        if event.is_successful_output:
            yield str(event.step_key), {name: one.value for name, one in event.step_output_data.metadata.items()}
        elif event.is_step_failure and (failure := event.step_failure_data.user_failure_data):
            yield str(event.step_key), {"failed": failure.description}


def outcomes(said: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    return {step: found["outcome"] for step, found in said.items() if "outcome" in found}


def test_a_tenant_comes_once(load: Load, tmp_path: Path, instance: dg.DagsterInstance) -> None:
    uri = str(tmp_path / "warehouse")
    Lakehouse.open(uri).close()
    defs = load(uri)
    said = run(defs, "onboard_job", instance, {"user": USER})
    assert outcomes(said) == {"namespace": "would be created", "account": "would be created"}
    assert said["tables"] == {"nyc.logbook": "would be created"}
    with Lakehouse.open(uri) as lake:
        assert not lake.namespaces()
        assert USER not in lake.warehouse.catalog.read().users
    said = run(defs, "onboard_job", instance, {"user": USER, "dry_run": False})
    assert (outcomes(said), said["tables"]) == ({"namespace": "created", "account": "created"}, {"nyc.logbook": "created"})
    with Lakehouse.open(uri) as lake:
        lake.session(user=USER, role="user").sql("INSERT INTO nyc.logbook VALUES (TIMESTAMP '2013-01-01 08:00:00', 'departed')")
    again = run(defs, "onboard_job", instance, {"user": USER, "dry_run": False})
    assert {*outcomes(again).values(), *again["tables"].values()} == {"there already"}
    booked = instance.fetch_observations(dg.AssetKey(["nyc", "logbook"]), limit=10).records
    assert [one.asset_observation.description for one in booked if one.asset_observation] == [
        "onboard: there already",
        "onboard: created",
        "onboard: would be created",
    ]
    refused = run(defs, "onboard_job", instance, {"user": USER, "role": "service", "dry_run": False}, succeeds=False)
    assert "ALREADY_EXISTS" in str(refused["account"]["failed"])
    assert "has the role user" in str(refused["account"]["failed"])


def test_a_tenant_leaves_with_its_data_and_a_certificate(
    load: Load, nyc: str, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    fly(nyc, USER, (1, 8), (2, 9))
    defs = load(nyc)
    run(defs, "onboard_job", instance, {"user": USER, "dry_run": False})
    assert defs.resolve_job_def("record_job").execute_in_process(instance=instance).success
    with Lakehouse.open(nyc) as lake:
        request = lake.request_erasure(USER, asked_by="the tenant")
    form = {"request": request, "hand_over": str(tmp_path / "handed")}
    said = run(defs, "offboard_job", instance, form)
    assert outcomes(said) == {
        "close_account": "would be closed",
        "hand_over": "would be exported",
        "certify": "would be certified",
    }
    assert int(str(said["erase"]["findings"])) > 0
    assert not (tmp_path / "handed").exists()
    with Lakehouse.open(nyc) as lake:
        assert lake.table("nyc.flights").read(user=USER).num_rows == 2
    said = run(defs, "offboard_job", instance, {**form, "dry_run": False})
    assert outcomes(said) == {"close_account": "closed", "hand_over": "exported", "certify": "complete"}
    assert (said["hand_over"]["tables"], said["hand_over"]["rows"]) == (1, 2)
    assert DeltaTable(str(tmp_path / "handed" / "nyc" / "flights")).to_pyarrow_table().num_rows == 2
    certificate = json.loads((tmp_path / "handed" / "certificate.json").read_text())
    assert (certificate["result"], certificate["user"], certificate["findings"]) == ("complete", request, [])
    with Lakehouse.open(nyc) as lake:
        assert not lake.verify_erased(USER, deep=True).findings
        assert lake.table("nyc.flights").read(user="N1").num_rows == 3
        account = lake.warehouse.catalog.read().users[USER]
        assert account.deleted_at is not None
    assert naming(tmp_path / "dagster") == [], "Dagster forgets the tenant, and the runs that named it"


@pytest.mark.parametrize("place", ["warehouse/data/out", "warehouse"])
def test_what_is_handed_over_into_the_warehouse_is_refused_before_anything(
    load: Load, nyc: str, tmp_path: Path, instance: dg.DagsterInstance, place: str
) -> None:
    defs = load(nyc)
    run(defs, "onboard_job", instance, {"user": "N1", "dry_run": False})
    with Lakehouse.open(nyc) as lake:
        request = lake.request_erasure("N1")
    form = {"request": request, "hand_over": str(tmp_path / place), "dry_run": False}
    said = run(defs, "offboard_job", instance, form, succeeds=False)
    assert "INVALID_ARGUMENT" in str(said["close_account"]["failed"])
    with Lakehouse.open(nyc) as lake:
        assert lake.table("nyc.flights").read(user="N1").num_rows == 3
        assert lake.warehouse.catalog.read().users["N1"].deleted_at is None


def test_a_run_that_was_cut_off_is_run_again(
    load: Load, nyc: str, tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lakehouse.open(nyc) as lake:
        request = lake.request_erasure("N1")
    form = {"request": request, "hand_over": str(tmp_path / "handed"), "dry_run": False}
    with monkeypatch.context() as cut:
        cut.setattr(fs, "copy_files", _killed)
        run(load(nyc), "offboard_job", instance, form, succeeds=False)
    with Lakehouse.open(nyc) as lake:
        assert lake.table("nyc.flights").read(user="N1").num_rows == 3, "nothing is erased before it is handed over"
    said = run(load(nyc), "offboard_job", instance, form)
    assert outcomes(said)["certify"] == "complete"
    assert DeltaTable(str(tmp_path / "handed" / "nyc" / "flights")).to_pyarrow_table().num_rows == 3


def _killed(*_: object, **__: object) -> None:
    raise OSError("no space left on device")
