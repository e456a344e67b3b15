"""The launchpad's forms: what people may leave out, what is refused before a run starts, and that all of it is explained."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
import pytest

from lakewarden.dagster.jobs.compact import CompactConfig, compact_job
from lakewarden.dagster.jobs.erase import EraseConfig, erase_job
from lakewarden.dagster.jobs.evict import EvictConfig, evict_job
from lakewarden.dagster.jobs.export import export_job
from lakewarden.dagster.jobs.flush import FlushConfig, flush_job
from lakewarden.dagster.jobs.ingest import IngestConfig, ingest_job
from lakewarden.dagster.jobs.move import MoveConfig, move_job
from lakewarden.dagster.jobs.optimize import OptimizeConfig, optimize_job
from lakewarden.dagster.jobs.queue_job import RecordConfig, record_job, run_queued_job
from lakewarden.dagster.jobs.restore import RestoreConfig, RestoreTableConfig, ToTimestamp, ToVersion, restore_job
from lakewarden.dagster.jobs.vacuum import VacuumConfig, vacuum_job
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

JOBS = [
    flush_job,
    evict_job,
    erase_job,
    export_job,
    ingest_job,
    move_job,
    run_queued_job,
    compact_job,
    optimize_job,
    vacuum_job,
    restore_job,
    record_job,
]
FORMS = [
    FlushConfig,
    EvictConfig,
    IngestConfig,
    MoveConfig,
    CompactConfig,
    OptimizeConfig,
    VacuumConfig,
    RestoreConfig,
    RestoreTableConfig,
    RecordConfig,
    ToVersion,
    ToTimestamp,
]


def check(job: dg.JobDefinition, config: Mapping[str, object]) -> Mapping[str, object]:
    """The form with its defaults: what the launchpad does before it starts a run."""
    bound = dg.Definitions(jobs=[job], resources=resources_of(Mount("w")))
    op = job.name.removesuffix("_job")
    whole = dg.validate_run_config(bound.resolve_job_def(job.name), {"ops": {op: {"config": dict(config)}}})
    filled: Mapping[str, object] = whole["ops"][op]["config"]
    return filled


@pytest.mark.parametrize(
    "job",
    [job for job in JOBS if job not in (restore_job, erase_job, export_job, ingest_job, move_job)],
    ids=lambda job: job.name,
)
def test_an_empty_form_is_a_form(job: dg.JobDefinition) -> None:
    filled = check(job, {})
    assert filled
    assert not any(filled.get(name) for name in ("tables", "user", "scopes", "jobs")), "nothing is chosen beforehand"


@pytest.mark.parametrize(
    ("job", "config"),
    [
        (flush_job, {"tables": ["chat.messages"], "user": "ada"}),
        (flush_job, {"scopes": {"chat.messages": ["ada", "a/b"], "chat.rooms": []}}),
        (optimize_job, {"zorder": ["id"], "user": None}),
        (vacuum_job, {"retain_hours": 24.0, "force": True, "dry_run": False}),
        (restore_job, {"table": "chat.messages", "user": "ada", "target": {"version": {"version": 3}}}),
        (
            restore_job,
            {"table": "chat.messages", "target": {"timestamp": {"timestamp": "2026-11-21T08:30:00Z"}}, "dry_run": False},
        ),
        (record_job, {"again": True}),
        (erase_job, {"request": "0" * 32, "dry_run": False}),
        (export_job, {"user": "ada", "to": "/tmp/out"}),
        (run_queued_job, {"jobs": ["FL-1"]}),
    ],
)
def test_a_filled_form_is_accepted(job: dg.JobDefinition, config: dict[str, object]) -> None:
    assert check(job, config).keys() >= config.keys()


@pytest.mark.parametrize(
    ("job", "config"),
    [
        (flush_job, {"tables": "chat.messages"}),
        (flush_job, {"scope": {}}),
        (vacuum_job, {"dry_run": "no"}),
        (erase_job, {"user": "ada"}),
        (erase_job, {}),
        (restore_job, {"table": "chat.messages", "target": {"version": 3}}),
        (restore_job, {"table": "chat.messages", "target": {"version": {"version": 1}, "timestamp": {"timestamp": "x"}}}),
    ],
)
def test_a_wrong_form_is_refused_before_the_run(job: dg.JobDefinition, config: dict[str, object]) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError):
        check(job, config)


def test_what_destroys_is_a_dry_run_by_default() -> None:
    assert EraseConfig.model_fields["dry_run"].default is True
    assert VacuumConfig.model_fields["dry_run"].default is True
    assert RestoreConfig.model_fields["dry_run"].default is True
    assert EvictConfig.model_fields["dry_run"].default is True


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_and_field_explains_itself(form: type[dg.Config]) -> None:
    assert form.__doc__
    fields = {name: field for name, field in form.model_fields.items() if name != "by"}
    assert not [name for name, field in fields.items() if not field.description]
