"""Who does an operation, why it is refused, and what it costs: by the features, the damage and the writers of a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import PricesSettings
from lakewarden.delta.examination.kinds import DamageKind
from lakewarden.delta.features import OPERATIONS
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.maintenance.survey.table_survey import Damage, OperationEstimate, PlaceClass
from lakewarden.maintenance.survey.verdict import ERROR, SurveyedTable, estimates, place_class
from lakewarden.storage.meter import Kind, dollars, metered
from tests.delta.hand_written import HandWritten
from tests.fixtures.lakes import NOTES, make_notes, notes
from tests.fixtures.minio import MinioServer


@pytest.fixture
def state(tmp_path: Path) -> LogState:
    table = HandWritten(tmp_path / "t")
    sizes = {"a.parquet": 60, "b.parquet": 50, "c.parquet": 40, "full.parquet": 90}
    table.begin(*({"add": {"path": path, "size": size, "partitionValues": {}}} for path, size in sizes.items()))
    found = replay(table.location)
    assert found is not None
    return found


def said(state: LogState, *damage: Damage, place: PlaceClass = "conditional", disk: bool = False) -> dict[str, OperationEstimate]:
    return {**estimates(SurveyedTable(state, damage, place, 1_500, 3, disk, 100), PricesSettings(gb_read=1e7))}


def test_the_files_of_a_compaction_are_those_that_the_planner_packs(state: LogState) -> None:
    found = said(state)["compact"]
    assert found.route == "native"
    assert found.bytes == 2 * (60 + 40)  # one bin of two; 50 is alone, 90 is full
    assert found.dollars == pytest.approx((9 * 0.0004 + 9 * 0.005) / 1000 + 100 / 1e9 * 1e7)
    assert said(state, disk=True)["compact"].dollars == 0


REFUSED: dict[DamageKind, set[str]] = {
    "hollow": {"read", "compact", "cluster"},
    "size-differs": {"read", "compact", "cluster"},
    "vector-gone": {"read", "compact", "cluster"},
    "vector-short": {"read", "compact", "cluster"},
    "torn-commit": {"vacuum", "compact", "cluster", "restore"},
    "checkpoint-unreadable": {"vacuum", "restore"},
    "checkpoint-contradicts": {"vacuum", "restore"},
    "last-checkpoint-wrong": set(),
    "log-gap": {"vacuum", "compact", "cluster", "restore"},
    "history-gap": set(),
    "partition-value-nulled": {"compact", "cluster"},
    "remove-without-vector": set(),
    "duplicate-live-path": {"compact", "cluster"},
    "removes-unknown": set(),
    "case-clash": set(),
    "outside-path": {"restore", "erase"},
    "unknown-feature": {"vacuum", "compact", "cluster", "restore", "erase"},
    "unknown-action": {"vacuum", "compact", "cluster", "restore", "erase"},
    "unknown-storage-type": {"read", "vacuum", "compact", "cluster", "restore"},
}


@pytest.mark.parametrize("kind", REFUSED)
def test_damage_refuses_what_it_would_make_worse(state: LogState, kind: DamageKind) -> None:
    found = said(state, Damage(kind, "of this"))
    assert {name for name, each in found.items() if each.route == "refused"} == REFUSED[kind]
    assert all(found[name].reason == f"{kind}: of this" for name in REFUSED[kind])
    assert all(found[name].requests == found[name].dollars == 0 for name in REFUSED[kind])


def test_a_clone_is_read_and_written_by_spark(state: LogState) -> None:
    found = said(state, Damage("outside-path", "x"))
    assert {name for name, each in found.items() if each.route == "spark"} == {"read", "compact", "cluster"}


@pytest.mark.parametrize(
    ("place", "refused"),
    [
        ("conditional", set()),
        ("overwrites", {"restore", "erase"}),
        ("unknown", {"restore", "erase"}),
        ("dynamodb", {"restore", "erase"}),
        ("commit-service", {"compact", "cluster", "restore", "erase"}),
    ],
)
def test_writers_who_overwrite_commits_refuse_what_cannot_be_done_again(
    state: LogState, place: PlaceClass, refused: set[str]
) -> None:
    assert {name for name, each in said(state, place=place).items() if each.route == "refused"} == refused
    assert said(state, place=place).keys() == {*OPERATIONS}


SPARK = "Apache-Spark/4.1.4 Delta-Lake/4.4.0"


@pytest.mark.parametrize(
    ("uri", "engines", "expected"),
    [
        ("/lake/t", [SPARK], "conditional"),
        ("gs://b/t", [SPARK], "conditional"),
        ("abfss://c@a/t", ["Databricks-Runtime/15.4"], "conditional"),
        ("s3://b/t", [SPARK], "overwrites"),
        ("s3://b/t", ["delta-rs:py-1.6.6"], "conditional"),
        ("s3://b/t", ["Lakewarden/1.0", "delta-rs:py-1.6.6"], "conditional"),
        ("s3://b/t", ["delta-rs:py-1.6.6", SPARK], "overwrites"),
        ("s3://b/t", ["Databricks-Runtime/15.4.x", SPARK], "commit-service"),
        ("s3://b/t", ["Fivetran"], "unknown"),
        ("s3://b/t", ["Fivetran", SPARK], "overwrites"),
        ("s3://b/t", [], "unknown"),
    ],
)
def test_the_class_of_a_place(uri: str, engines: list[str], expected: str) -> None:
    assert place_class(uri, engines, {}) == expected


def test_a_lock_is_declared() -> None:
    lock = {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}
    assert place_class("s3://b/t", [SPARK], lock) == "dynamodb"
    assert place_class("s3://b/t", ["Databricks-Runtime/15.4"], lock) == "commit-service"
    assert place_class("s3://b/t", ["delta-rs:py-1.6.6"], lock) == "conditional"


@pytest.mark.minio
@pytest.mark.parametrize("files", [5, 12])
def test_the_requests_are_those_that_the_meter_counts(
    minio: MinioServer, s3_warehouse_uri: str, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in minio.environment.items():
        monkeypatch.setenv(name, value)
    with Lakehouse.open(s3_warehouse_uri) as lake:
        table = make_notes(lake)

        def written(first: int) -> None:
            for key in range(first, first + files):
                table.write(notes({key: "a"}), user="ann")
                lake.flush()

        written(0)
        place = lake.survey(f"{s3_warehouse_uri}/data")[0].path
        runs: dict[str, Callable[[], object]] = {
            "read": lambda: lake.sql(f"SELECT * FROM delta('{place}')"),
            "cluster": lambda: lake.optimize(NOTES, user="ann", zorder=["id"]),
            "restore": lambda: lake.restore(NOTES, user="ann", version=2, dry_run=False),
            "compact": lambda: lake.optimize(NOTES, user="ann"),
            "vacuum": lambda: lake.vacuum(NOTES, user="ann", retain_hours=0, force=True, dry_run=False),
        }
        for operation, run in runs.items():
            if operation == "compact":
                written(files)
            estimate = lake.survey(place)[0].operations[operation]
            with metered() as account:
                run()
            counted = {kind: amount for kind, amount in account.total().items() if kind in get_args(Kind) and kind != "OPEN"}
            assert (estimate.route, estimate.error) == ("native", ERROR)
            assert estimate.requests == pytest.approx(sum(counted.values()), rel=ERROR), operation
            assert estimate.dollars == pytest.approx(dollars(counted, PricesSettings()), rel=ERROR), operation
