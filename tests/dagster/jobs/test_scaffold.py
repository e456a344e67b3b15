"""What the launchpad's own buttons make of every form: it launches, and destroys nothing."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
import pytest
import yaml
from dagster._config import ConfigSchemaSnapshot
from dagster._config.config_type import ConfigTypeKind
from dagster._core.snap.snap_to_yaml import default_values_yaml_from_type_snap

from lakewarden.client import Lakehouse
from lakewarden.dagster import build_definitions
from lakewarden.dagster.definitions import VARIABLE
from tests.fixtures.chat import MESSAGES, TYPING, USERS, add_stream, contents
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

SCALARS = {"String": "", "Int": 0, "Float": 0.0, "Bool": True, "Any": "AnyType"}

RUN_ELSEWHERE = {"check_job", "flush_job", "compact_job", "optimize_job", "record_job", "run_queued_job", "prune_job"}
"""Their forms may be left empty, as other tests do."""


def schema(job: dg.JobDefinition) -> tuple[ConfigSchemaSnapshot, str]:
    snapshot = job.get_job_snapshot()
    root = snapshot.mode_def_snaps[0].root_config_key
    assert root
    return snapshot.config_schema_snapshot, root


def scaffold(types: ConfigSchemaSnapshot, key: str) -> object:
    """*Scaffold missing config*: `scaffoldType.ts` of Dagster's web pages."""
    found = types.get_config_snap(key)
    match found.kind:
        case ConfigTypeKind.SELECTOR:
            return "<selector>"
        case ConfigTypeKind.STRICT_SHAPE | ConfigTypeKind.PERMISSIVE_SHAPE:
            return {field.name: scaffold(types, field.type_key) for field in found.fields or [] if field.is_required}
        case ConfigTypeKind.ARRAY:
            return []
        case ConfigTypeKind.MAP:
            return {}
        case ConfigTypeKind.NONEABLE | ConfigTypeKind.SCALAR_UNION:
            return scaffold(types, (found.type_param_keys or [])[0])
        case ConfigTypeKind.ENUM:
            return "|".join(value.value for value in found.enum_values or [])
        case _:
            return SCALARS[key]


def defaults(job: dg.JobDefinition) -> Mapping[str, object]:
    """*Scaffold all default config*, which also fills a form when it is opened."""
    types, root = schema(job)
    found = yaml.safe_load(default_values_yaml_from_type_snap(types, types.get_config_snap(root)))
    return found or {}


@pytest.fixture
def jobs(chat: str, monkeypatch: pytest.MonkeyPatch) -> list[dg.JobDefinition]:
    add_stream(chat, "ada")
    monkeypatch.setenv(VARIABLE, chat)
    defs = build_definitions()
    jobs = [job for job in defs.get_repository_def().get_all_jobs() if not job.name.startswith("__")]
    return [defs.resolve_job_def(job.name) for job in jobs]


def merged(filled: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    """`filled` wins."""
    both = {name: (filled[name], more[name]) for name in filled.keys() & more.keys()}
    inner = {name: merged(a, b) for name, (a, b) in both.items() if isinstance(a, Mapping) and isinstance(b, Mapping)}
    return {**more, **filled, **inner}


def test_scaffolded_forms_are_valid_and_fail_with_one_clear_line_if_at_all(chat: str, jobs: list[dg.JobDefinition]) -> None:
    declined = {}
    for job in jobs:
        missing = scaffold(*schema(job))
        assert isinstance(missing, Mapping)
        form = merged(missing, defaults(job))
        for each in (missing, form):
            dg.validate_run_config(job, each)
        if job.name in RUN_ELSEWHERE:
            continue
        result = job.execute_in_process(run_config=form, raise_on_error=False)
        if not result.success:
            (data,) = [event.step_failure_data.user_failure_data for event in result.all_node_events if event.is_step_failure]
            declined[job.name] = (data.description if data else None) or ""
    assert {name: line.partition(":")[0] for name, line in declined.items() if line} == dict.fromkeys(
        ("restore_job", "restore_chat__messages", "erase_job", "export_job", "move_job", "ingest_job"), "INVALID_ARGUMENT"
    )
    assert not [line for line in declined.values() if "\n" in line or "Traceback" in line]
    assert {user: set(contents(chat, user)) for user in USERS} == {user: {0, 1} for user in USERS}
    with Lakehouse.open(chat) as lake:
        assert [report.metrics for report in lake.evict(TYPING, dry_run=True)], "the expired row is still in the log"


def test_no_form_shows_notes_for_developers(jobs: list[dg.JobDefinition]) -> None:
    for job in jobs:
        types, _ = schema(job)
        fields = [field for key in types.all_config_keys for field in types.get_config_snap(key).fields or []]
        said = {field.description for field in fields if field.description}
        assert not [text for text in said if "ResourceParam" in text or "LAKEWARDEN_SPARK" in text], job.name


def test_what_a_table_is_called_stands_in_its_form(jobs: list[dg.JobDefinition]) -> None:
    (restore,) = [job for job in jobs if job.name == "restore_chat__messages"]
    form = defaults(restore)["ops"]
    assert form == {"restore_table": {"config": {"to": "", "plan": "", "user": ""}}}
    assert isinstance(restore.partitions_def, dg.DynamicPartitionsDefinition)
    assert restore.partitions_def.name == MESSAGES
