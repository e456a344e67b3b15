"""A new operation is its package, its row in `catalog/operations.py` and its Dagster file: all else follows from these."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakewarden.catalog.operations import PLANNABLE, SPECS

_ROOT = Path(__file__).parent.parent.parent

_OPTIONS = """
from dataclasses import dataclass

from lakewarden.maintenance.options import OfScopes, option


@dataclass(frozen=True)
class CensusOptions(OfScopes):
    since: int = option(0, "Count from this number on.")


OPTIONS = CensusOptions
"""

_PROCEDURE = '''
from lakewarden.catalog.report import ScopeReport
from lakewarden.maintenance.census import CensusOptions
from lakewarden.maintenance.procedure import ByScope
from lakewarden.maintenance.scopes import targets_of


class Census(ByScope):
    """Counts the scopes of tables, and whether a scope is opened."""

    def look(self, at, catalog, request):
        return self._reports(at, catalog, request, "planned")

    def run(self, at, catalog, request, job_id=None):
        return at.as_job("census", request.scopes, lambda id_: self._reports(at, catalog, request, "done"), job_id)

    def apply(self, at, catalog, plan, job_id):
        return [line.done("census", at.warehouse.clock(), "counted") for line in plan.scopes]

    def _reports(self, at, catalog, request, outcome):
        targets = targets_of(at.warehouse, catalog, request.tables, request.user)
        metrics = {"scopes": 1, "opened": int(request.look), "since": request.options_of(CensusOptions).since}
        return [ScopeReport(each.scope, "census", outcome, each.location, metrics=metrics) for each in targets]


PROCEDURE = Census()
'''

_ROW = """    "census": OperationSpec(
        "CN",
        "Count the scopes of tables",
        queueable=True,
        plannable=True,
        command=Command("skipped: no scopes", "app.t --look", "Show which scopes would be counted."),
    ),
    "drop": OperationSpec("""

_DAGSTER = """
import dagster as dg

from lakewarden.dagster.jobs.runs import job_tags


@dg.op
def census() -> None: ...


@dg.job(tags=job_tags("census", -10))
def census_job() -> None:
    census()
"""

_USE = """
import sys
from contextlib import suppress

from lakewarden import Column, Lakehouse
from lakewarden.cli import main
from lakewarden.dagster.definitions import JOBS

with Lakehouse.open(sys.argv[1]) as lake:
    lake.create_namespace("app")
    table = lake.create_table("app.t", type="USER", columns=[Column("id", "BIGINT")], primary_key=["id"])
    for user in ("u", "v"):
        table.write([{"id": 1}], user=user)
    lake.flush()
    plan = lake.plan("census", "app.t", look=True)
    print([line.metrics["opened"] for line in plan.scopes], [report.outcome for report in lake.apply(plan)])
    print([report.scope.user for report in lake.run("census", "app.t", user="v")])
    job = lake.enqueue("census", "app.t", since=2)
    print(job.job_id[:3], [done.status for done in lake.run_jobs()])
    # by its id: jobs of one millisecond are in any order
    print([each.message for each in lake.jobs(2) if each.job_id == job.job_id])
print([job.name for job in JOBS if job.name == "census_job"])
with suppress(SystemExit):
    main(["--warehouse", sys.argv[1], "--format", "json", "census", "app.t", "--look", "--since", "3", "--dry-run"])
"""


@pytest.mark.slow
@pytest.mark.disk
def test_a_new_operation_is_its_package_its_row_and_its_job(tmp_path: Path) -> None:
    """In a copy of the package it is planned, applied, run, queued, a command, and a job of Dagster."""
    copy = tmp_path / "lakewarden"
    shutil.copytree(_ROOT / "lakewarden", copy)  # with what is compiled, which counts for each file that stays as it is
    (copy / "maintenance" / "census").mkdir()
    (copy / "maintenance" / "census" / "__init__.py").write_text(_OPTIONS)
    (copy / "maintenance" / "census" / "procedure.py").write_text(_PROCEDURE)
    (copy / "dagster" / "jobs" / "census.py").write_text(_DAGSTER)
    specs = (copy / "catalog/operations.py").read_text()
    assert specs.count('\n    "evict",\n') == 1, "in the type of operations"
    assert specs.count('"evict", ') == 2, "in the types of those that can be queued, and of those with plans"
    assert specs.count('    "drop": OperationSpec(') == 1
    typed = specs.replace('\n    "evict",\n', '\n    "evict",\n    "census",\n').replace('"evict", ', '"evict", "census", ')
    named = typed.replace('    "drop": OperationSpec(', _ROW)
    (copy / "catalog/operations.py").write_text(named)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", _USE, str(tmp_path / "warehouse")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    *said, printed = done.stdout.splitlines()
    assert said == ["[1, 1] ['done', 'done']", "['v']", "CN- ['completed']", "['2 done']", "['census_job']"]
    planned = json.loads(printed)
    found = [(row["user"], row["outcome"], row["metrics"]["opened"], row["metrics"]["since"]) for row in planned]
    assert found == [("u", "planned", 1, 3), ("v", "planned", 1, 3)]
    assert planned[0]["plan_id"]


_USE_OPTION = """
import json
import sys
from contextlib import suppress

from lakewarden import Column, Lakehouse
from lakewarden.cli import main
from lakewarden.dagster.jobs.vacuum import VacuumConfig
from lakewarden.maintenance.plans.value import Plan

with Lakehouse.open(sys.argv[1]) as lake:
    lake.create_namespace("app")
    table = lake.create_table("app.t", type="USER", columns=[Column("id", "BIGINT")], primary_key=["id"])
    for _ in range(2):
        table.write([{"id": 1}], user="root")
        lake.flush()
    own = {"user": "root", "retain_hours": 0.0, "force": True, "careful": 3}
    print([report.metrics["careful"] for report in lake.run("vacuum", "app.t", dry_run=True, **own)])
    plan = lake.plan("vacuum", "app.t", **own)
    print(json.loads(plan.to_json().splitlines()[0])["request"]["careful"], Plan.from_json(plan.to_json()) == plan)
    rows = lake.sql("VACUUM app.t WITH (careful = 5, retain_hours = 0, force = true) DRY RUN")
    print([len(result.to_pylist()) for result in rows])
    try:
        lake.sql("VACUUM app.t WITH (careful = much)")
    except Exception as error:
        print(error.code)
print(VacuumConfig.model_fields["careful"].description)
for arguments in (["vacuum", "app.t"], ["plan", "app.t", "--operation", "vacuum", "--all"]):
    dry = [] if arguments[0] == "plan" else ["--dry-run"]
    with suppress(SystemExit):
        main(["--warehouse", sys.argv[1], "--format", "json", *arguments, *dry, "--careful", "4", "--retain", "0", "--force"])
"""


@pytest.mark.slow
@pytest.mark.disk
def test_a_new_option_of_vacuum_is_its_field_and_what_it_changes(tmp_path: Path) -> None:
    """In a copy of the package two files are touched, and every door has it; the method `lake.vacuum` names its own."""
    copy = tmp_path / "lakewarden"
    shutil.copytree(_ROOT / "lakewarden", copy)  # with what is compiled, which counts for each file that stays as it is
    touched = {
        "maintenance/vacuum/__init__.py": (
            "    keep_versions: tuple",
            '    careful: int = option(0, "How careful to be.")\n    keep_versions: tuple',
        ),
        "maintenance/vacuum/scope.py": (
            '            "files_deleted": len(found.data),\n',
            '            "files_deleted": len(found.data),\n            "careful": options.careful,\n',
        ),
    }
    for name, (before, after) in touched.items():
        text = (copy / name).read_text()
        assert text.count(before) == 1, name
        (copy / name).write_text(text.replace(before, after))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", _USE_OPTION, str(tmp_path / "warehouse")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    *said, vacuumed, planned = done.stdout.splitlines()
    assert said == ["[3]", "3 True", "[1]", "INVALID_ARGUMENT", "How careful to be."]
    assert [row["metrics"]["careful"] for row in json.loads(vacuumed)] == [4]
    assert [row["operation"] for row in json.loads(planned)] == ["vacuum"]
    assert len(touched) == 2


_USE_DOORS = """
import sys
from importlib import import_module

from lakewarden.cli.main import _command
from lakewarden.maintenance.request import new_request, request_of_wire

commands = _command().commands
flags = {name: {flag for each in command.params for flag in each.opts} for name, command in commands.items()}
for operation in sys.argv[1:]:
    request = new_request(operation, (), careful=3)
    form = getattr(import_module(f"lakewarden.dagster.jobs.{operation}"), f"{operation.capitalize()}Config")
    doors = {
        "plan": request.wire["careful"] == 3 and request_of_wire(request.wire) == request,
        "job": request.parameters["careful"] == "3",
        "command": "--careful" in flags[operation],
        "command of plans": "--careful" in flags["plan"],
        "form": "careful" in form.model_fields,
    }
    print(operation, *(door for door, has in doors.items() if not has))
"""

_WITHOUT = {"erase": ["form"]}
"""The form of an erasure names a queued request, which has the options: Dagster would keep the user's name."""


@pytest.mark.slow
def test_a_new_option_of_any_operation_is_its_field_at_every_door(tmp_path: Path) -> None:
    """In a copy of the package one file is touched for each."""
    copy = tmp_path / "lakewarden"
    shutil.copytree(_ROOT / "lakewarden", copy)  # with what is compiled, which counts for each file that stays as it is
    operations = [name for name in PLANNABLE if SPECS[name].takes == "own"]
    for operation in operations:
        home = copy / "maintenance" / operation / "__init__.py"
        text, end = home.read_text(), "\n\n\nOPTIONS = "
        assert text.count(end) == 1, operation
        home.write_text(text.replace(end, f'\n    careful: int = option(0, "How careful to be."){end}'))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", _USE_DOORS, *operations]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    missing = {name: doors for name, *doors in map(str.split, done.stdout.splitlines())}
    assert missing == {name: _WITHOUT.get(name, []) for name in operations}
