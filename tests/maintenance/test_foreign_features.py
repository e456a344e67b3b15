"""Every feature that other writers turn on is kept, or refused by name, by every operation that commits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shutil import copytree

import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.catalog.report import ScopeReport
from lakewarden.errors import LakewardenError
from lakewarden.maintenance.planning.health import health
from tests.delta.foreign_features import Feature, constraint, turn_on

pytestmark = pytest.mark.disk

_INVARIANT = {"delta.invariants": json.dumps({"expression": {"expression": "n > 0"}})}

_KEPT = [
    Feature("invariants", column=_INVARIANT),
    Feature("invariants", column=_INVARIANT, legacy=2),
    constraint("n > 0"),
    Feature("checkConstraints", {"delta.constraints.c": "n > 0"}, legacy=3),
    Feature("deletionVectors", {"delta.enableDeletionVectors": "true"}, reads=True),
    Feature("timestampNtz", reads=True),
    Feature("v2Checkpoint", {"delta.checkpointPolicy": "v2"}, reads=True),
    Feature("variantType", reads=True),
    *(Feature(name) for name in ("appendOnly", "changeDataFeed", "generatedColumns")),
]
_FEED = {"delta.enableChangeDataFeed": "true"}
_GENERATED = {"delta.generationExpression": "id * 2"}
_IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True}

_OF_ROWS = [
    (Feature("checkConstraints", {"delta.constraints.c": "n % 2 = 1"}), "CHECK constraint c"),
    (Feature("invariants", column={"delta.invariants": "n"}), "invariant of column n"),
    (Feature("generatedColumns", column=_GENERATED), "generated column n"),
    (Feature("generatedColumns", column=_GENERATED, legacy=4), "generated column n"),
]
"""Refused where rows are added; the same rows may be written again."""

_REFUSED = [
    (Feature("columnMapping", {"delta.columnMapping.mode": "name"}, reads=True), "[Cc]olumn mapping"),
    (Feature("identityColumns", column=_IDENTITY), "identityColumns"),
    (Feature("identityColumns", column=_IDENTITY, legacy=6), "identity columns"),
    (Feature("rowTracking", {"delta.enableRowTracking": "true"}), "rowTracking"),
    (Feature("inCommitTimestamp", {"delta.enableInCommitTimestamps": "true"}), "inCommitTimestamp"),
    (Feature("typeWidening", {"delta.enableTypeWidening": "true"}, reads=True), "typeWidening"),
    (Feature("allowColumnDefaults", column={"CURRENT_DEFAULT": "7"}), "allowColumnDefaults"),
    *((Feature(name), name) for name in ("domainMetadata", "clustering", "checkpointProtection", "unheardOf")),
    *((Feature(f"icebergCompatV{n}", {f"delta.enableIcebergCompatV{n}": "true"}), f"icebergCompatV{n}") for n in (1, 2, 3)),
    (Feature("vacuumProtocolCheck", reads=True), "vacuumProtocolCheck"),
    (Feature("catalogManaged", reads=True), "catalogManaged"),
    (Feature("unheardOf", reads=True), "unheardOf"),
]

_Reports = list[ScopeReport]


def _flush(lake: Lakehouse, statement: str) -> _Reports:
    lake.sql(statement)
    return lake.flush("app.k")


_ADDING: Mapping[str, Callable[[Lakehouse], object]] = {
    "flush of a new key": lambda lake: _flush(lake, "INSERT INTO app.k (id, n) VALUES (100, 1)"),
    "flush of a known key": lambda lake: _flush(lake, "INSERT INTO app.k VALUES (1, 3) ON CONFLICT (id) DO UPDATE SET n = 3"),
    "restore": lambda lake: lake.restore("app.k", version=2, dry_run=False),
    "append": lambda lake: lake.sql("INSERT INTO app.d VALUES (100, 1)"),
    "update": lambda lake: lake.sql("UPDATE app.d SET n = 3 WHERE id = 1"),
    "overwrite": lambda lake: lake.sql("INSERT OVERWRITE app.d VALUES (1, 1)"),
}
_SAME_ROWS: Mapping[str, Callable[[Lakehouse], object]] = {
    "compact": lambda lake: lake.compact("app.k", dry_run=False),
    "optimize": lambda lake: lake.optimize("app.d", dry_run=False),
    "vacuum": lambda lake: lake.vacuum("app.d", retain_hours=0, force=True, dry_run=False),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse that each test gets a copy of."""
    place = tmp_path_factory.mktemp("made") / "warehouse"
    with Lakehouse.open(str(place)) as opened:
        opened.sql("CREATE NAMESPACE app; CREATE SHARED TABLE app.k (id INT PRIMARY KEY, n INT)")
        opened.sql("CREATE SHARED TABLE app.d (id INT, n INT)")
        for number in range(6):
            opened.sql(f"INSERT INTO app.k VALUES ({number}, 1); INSERT INTO app.d VALUES ({number}, 1)")
            opened.flush()
    return place


@pytest.fixture
def lake(warehouse_uri: str, made: Path) -> Iterator[Lakehouse]:
    copytree(made, warehouse_uri)
    with Lakehouse.open(warehouse_uri) as opened:
        yield opened


def _turn_on(lake: Lakehouse, feature: Feature) -> None:
    for name in ("k", "d"):
        turn_on(_path(lake, name), feature)


def _path(lake: Lakehouse, name: str) -> Path:
    return Path(lake.warehouse.uri) / "data" / "app" / name


def _outcome(lake: Lakehouse, act: Callable[[Lakehouse], object]) -> str:
    """Empty where it was done, else why not."""
    try:
        found = act(lake)
    except LakewardenError as error:
        return error.message
    reports = found if isinstance(found, list) and all(isinstance(each, ScopeReport) for each in found) else []
    return "; ".join(each.reason for each in reports if each.outcome == "failed")


def _named(feature: Feature) -> str:
    return f"{feature.name}{feature.legacy or ''}{'-reader' if feature.reads else ''}{'' if feature.column else '-'}"


@pytest.mark.slow
@pytest.mark.parametrize("feature", _KEPT, ids=_named)
def test_a_feature_is_kept(lake: Lakehouse, feature: Feature) -> None:
    _turn_on(lake, feature)
    for name, act in {**_SAME_ROWS, **_ADDING}.items():
        assert _outcome(lake, act) == "", name
    assert all(finding.passed for finding in lake.check())
    assert DeltaTable(str(_path(lake, "k"))).protocol().min_writer_version == feature.protocol["minWriterVersion"]


@pytest.mark.slow
@pytest.mark.parametrize(("feature", "name"), _OF_ROWS, ids=[_named(feature) for feature, _ in _OF_ROWS])
def test_a_rule_of_rows_is_refused_by_name_where_rows_are_added(lake: Lakehouse, feature: Feature, name: str) -> None:
    _turn_on(lake, feature)
    for act in _SAME_ROWS.values():
        assert _outcome(lake, act) == ""
    before = [DeltaTable(str(_path(lake, each))).version() for each in ("k", "d")]
    for did, act in _ADDING.items():
        assert name in _outcome(lake, act), did
    assert before == [DeltaTable(str(_path(lake, each))).version() for each in ("k", "d")]
    _is_shown(lake, name)


@pytest.mark.slow
@pytest.mark.parametrize(("feature", "name"), _REFUSED, ids=[_named(feature) for feature, _ in _REFUSED])
def test_a_feature_is_refused_by_name(lake: Lakehouse, feature: Feature, name: str) -> None:
    files = {path: path.read_bytes() for each in ("k", "d") for path in _path(lake, each).glob("*.parquet")}
    _turn_on(lake, feature)
    commits = [len([*(_path(lake, each) / "_delta_log").glob("*.json")]) for each in ("k", "d")]
    for did, act in {**_SAME_ROWS, **_ADDING}.items():
        assert re.search(name, _outcome(lake, act)), did
    assert commits == [len([*(_path(lake, each) / "_delta_log").glob("*.json")]) for each in ("k", "d")]
    assert files == {path: path.read_bytes() for each in ("k", "d") for path in _path(lake, each).glob("*.parquet")}
    _is_shown(lake, name)


def _is_shown(lake: Lakehouse, name: str) -> None:
    """In a check, and from then on in the status and the health of the table."""
    failed = [finding for finding in lake.check() if not finding.passed and finding.subject == "app.k"]
    assert failed
    assert any(re.search(name, finding.message) for finding in failed)
    assert [one for one in lake.status() if one.table == "app.k" and re.search(name, f"{one.reason} {one.error}")]
    assert [one for table in health(lake.warehouse) for one in table.worst if re.search(name, one.reason)]


@pytest.mark.slow
def test_new_columns_take_no_rule_away(lake: Lakehouse) -> None:
    _turn_on(lake, Feature("invariants", column=_INVARIANT))
    lake.sql("ALTER TABLE app.k ADD COLUMN more INT")
    assert "invariant of column n" in _outcome(lake, _ADDING["flush of a new key"])
    assert "delta.invariants" in DeltaTable(str(_path(lake, "k"))).schema().to_json()


@pytest.mark.parametrize("legacy", [0, 2])
def test_a_table_that_only_grows_is_only_added_to(lake: Lakehouse, legacy: int) -> None:
    _turn_on(lake, Feature("appendOnly", {"delta.appendOnly": "true"}, legacy=legacy))
    for did in ("flush of a known key", "update", "overwrite"):
        assert "append-only" in _outcome(lake, _ADDING[did]), did
    assert _outcome(lake, _ADDING["append"]) == ""
    assert _outcome(lake, _SAME_ROWS["compact"]) == ""
