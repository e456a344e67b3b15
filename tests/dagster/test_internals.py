"""What is used of Dagster beyond its public names: where, for what, and which tests fail when a release changes it."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakewarden.dagster import instance_internals, internals
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

_ROOT = Path(__file__).parent.parent.parent
_MODULES = [Path(str(module.__file__)) for module in (internals, instance_internals)]

_EVENTS = "the removal of what Dagster keeps of erased users and old runs"
_SWEEPS = ("tests/dagster/jobs/event_log/test_forgetting.py", "tests/dagster/jobs/test_erase.py")
_RUNS = ("tests/dagster/orchestration/test_launcher.py",)
_ALERTS = ("tests/dagster/orchestration/test_check_alerts.py",)
_CHECKS = ("tests/dagster/orchestration/test_checking.py",)
_MATERIALIZES = ("tests/dagster/jobs/test_materialize.py",)
_PACKS = ("tests/dagster/jobs/event_log/test_packed_storage.py",)

STOPS = {
    "ASSET_PARTITION_RANGE_END_TAG": ("materializations of a range of partitions", _MATERIALIZES),
    "ASSET_PARTITION_RANGE_START_TAG": ("materializations of a range of partitions", _MATERIALIZES),
    "PARTITION_NAME_TAG": ("materializations of one partition", _MATERIALIZES),
    "SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION": (
        "what an external flush books on its table's own materialization",
        _MATERIALIZES,
    ),
    "UnresolvedAssetJobDefinition": (
        "nothing at run time: it is the type of jobs of checks",
        _CHECKS,
    ),
    "ConfigurableResourceFactory": (
        "the resource `lakehouse`, which yields an open warehouse",
        ("tests/dagster/test_resources.py",),
    ),
    "AssetCheckEvaluationTargetMaterializationData": (
        "checks that are evaluated beside a run",
        ("tests/dagster/orchestration/test_health.py",),
    ),
    "AssetCheckExecutionRecord": (
        "alerts and health by the newest checks",
        _ALERTS,
    ),
    "AssetCheckExecutionRecordStatus": ("alerts by the newest checks", _ALERTS),
    "AssetMaterializationPlannedData": (
        "the red mark of a failed partition",
        ("tests/dagster/jobs/event_log/test_failed_partitions.py",),
    ),
    "DagsterEventBatchMetadata": ("events that are booked a hundred at once", ("tests/dagster/jobs/event_log/test_batches.py",)),
    "CheckRunHealthResult": ("the retry of runs that lost their process", _RUNS),
    "LaunchRunContext": ("the start of runs", _RUNS),
    "WorkerStatus": ("the retry of runs that lost their process", _RUNS),
    "DAGSTER_EVENT_TYPES": (
        "the retry of runs that failed before the first start",
        _RUNS,
    ),
    "cursor_key": ("the retry of runs that failed before the first start", _RUNS),
    "ConfigurableClassData": ("dagster.yaml naming the launcher and the storage", _PACKS),
    "InstigatorState": ("what the fleet's page says of schedules", ("tests/dagster/orchestration/test_health.py",)),
    "InstigatorTick": ("what the fleet's page says of schedules", ("tests/dagster/orchestration/test_health.py",)),
    "InstigatorType": (_EVENTS, _SWEEPS),
    "TickStatus": (_EVENTS, _SWEEPS),
    "EventLogStorage": ("the type of event logs", _PACKS),
    "SqliteEventLogStorage": ("events of SQLite in a tenth of their bytes", _PACKS),
    "DagsterSqliteStorage": ("events of SQLite in a tenth of their bytes", _PACKS),
    **dict.fromkeys(
        (
            "SqlEventLogStorage",
            "SqlRunStorage",
            "SqlScheduleStorage",
            "AssetCheckExecutionsTable",
            "AssetDaemonAssetEvaluationsTable",
            "AssetEventTagsTable",
            "AssetKeyTable",
            "BackfillTagsTable",
            "BulkActionsTable",
            "InstigatorsTable",
            "JobTable",
            "JobTickTable",
            "KeyValueStoreTable",
            "RunTagsTable",
            "RunsTable",
            "SqlEventLogStorageTable",
        ),
        (_EVENTS, (*_SWEEPS, "tests/dagster/jobs/event_log/test_pruning.py")),
    ),
}
"""Of each private name: what stops where it is gone or another, and the tests that use it as it is used here."""


@pytest.mark.parametrize("module", _MODULES, ids=lambda path: path.stem)
def test_a_release_that_moves_a_name_is_told_what_stops(module: Path) -> None:
    tree = ast.parse(module.read_text())
    for origin, name, shown in _imported(tree):
        what, tests = STOPS[shown]
        found = getattr(importlib.import_module(origin), name, None)
        assert found is not None, (
            f"Dagster {dg.__version__} has no {origin}.{name}: {what} would stop; look at {', '.join(tests)}"
        )
        assert [test for test in tests if not (_ROOT / test).exists()] == []


def test_each_name_has_a_reason_and_none_is_left_over() -> None:
    names = [shown for module in _MODULES for *_, shown in _imported(ast.parse(module.read_text()))]
    assert sorted(names) == sorted(STOPS)
    used = "\n".join(path.read_text() for path in (_ROOT / "lakewarden" / "dagster").rglob("*.py") if path not in _MODULES)
    assert [name for name in names if name not in used] == []


def test_no_other_module_reaches_into_dagster() -> None:
    for path in (_ROOT / "lakewarden").rglob("*.py"):
        if path not in _MODULES:
            private = [origin for origin, *_ in _imported(ast.parse(path.read_text()))]
            assert private == [], f"{path}: {private} belong into lakewarden/dagster/internals.py or instance_internals.py"


def _imported(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Where a private name of Dagster stands, what it is called there, and here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("dagster._"):
            yield from ((node.module, one.name, one.asname or one.name) for one in node.names)
