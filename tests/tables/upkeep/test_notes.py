"""What reports note of a scope agrees with what opening it finds, after any operations in any order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.base.clock import from_millis, system_clock
from lakewarden.base.scope import Scope, TableName
from lakewarden.base.setting_sections import CompactionSettings, MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.report import ScopeState
from lakewarden.catalog.state.floor import floor_at
from lakewarden.catalog.state.floor_entries import NEVER, OPERATIONS, UNSEEN, FloorLocation, UpkeepNote
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.table import ScopeTable
from lakewarden.maintenance.compact import CompactOptions
from lakewarden.maintenance.compact.procedure import plan_compact
from lakewarden.maintenance.optimize import OptimizeOptions
from lakewarden.maintenance.optimize.procedure import plan_optimize
from lakewarden.maintenance.vacuum import VacuumOptions
from lakewarden.maintenance.vacuum.scope import plan_vacuum
from lakewarden.tables.upkeep_notes import upkeep_of
from lakewarden.tables.upkeep_rules import FoldRule, PackRule
from tests.fixtures.lakes import NOTES, make_notes, notes

SETTINGS = Settings(
    compaction=CompactionSettings(min_eligible_segments=2, max_segments_per_run=3, user_max_segment_rows=4),
    maintenance=MaintenanceSettings(target_file_size=4096, min_gain=0.4),
)


def _target(lake: Lakehouse) -> ScopeTarget:
    return lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName.parse(NOTES), "ann"))


def _upkeep(target: ScopeTarget) -> UpkeepNote:
    assert target.known is not None
    assert target.known.upkeep is not None
    return target.known.upkeep


@pytest.mark.disk
@pytest.mark.parametrize("seed", range(4))
def test_what_is_noted_as_quiet_is_quiet_when_opened(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with Lakehouse.open(str(tmp_path), settings=SETTINGS) as lake:
        table = make_notes(lake)
        steps: Mapping[str, Callable[[], object]] = {
            "insert": lambda: table.write(notes({chance.randrange(10**6): "text"}), user="ann"),
            "replace": lambda: table.write(notes({7: "text", 8: "text"}), user="ann"),
            "compact": lambda: lake.compact(NOTES, user="ann"),
            "optimize": lambda: lake.optimize(NOTES, user="ann"),
            "vacuum": lambda: lake.vacuum(NOTES, user="ann", retain_hours=0, force=True, dry_run=False),
            "look": lambda: lake.compact(NOTES, user="ann", dry_run=True),
        }
        table.write(notes({1: "text"}), user="ann")
        lake.flush()
        for step in chance.choices(list(steps), k=8):
            steps[step]()
            lake.flush()
            _agrees(lake, step)


def _agrees(lake: Lakehouse, step: str) -> None:
    target, clock = _target(lake), lake.warehouse.clock
    noted, opened = _upkeep(target), ScopeTable.open(target.location)
    assert target.known is not None
    assert opened is not None
    assert (target.known.version, noted.files, noted.bytes) == (
        opened.version,
        len(opened.files()),
        sum(file.size for file in opened.files()),
    )
    own, pack = FoldRule(target.rules.tail), PackRule(target.target_file_size, 0.4)
    assert target.rules.min_gain == 0.4
    for ratio, rule in ((None, own), (0.0, own.loosest)):
        compaction = plan_compact(target, CompactOptions(ratio=ratio), now=clock())
        assert rule.covers(noted.compacted) == bool(compaction.nothing), (step, ratio)
    for ratio, of_packing in ((None, replace(pack, ratio=target.rules.tail.ratio)), (0.0, pack)):
        packing = plan_optimize(target, OptimizeOptions(ratio=ratio), now=clock())
        assert of_packing.covers(noted.optimized) == bool(packing.nothing), (step, ratio)
    if noted.dead_since == noted.log_since == NEVER:
        assert plan_vacuum(target, VacuumOptions(0, force=True), now=clock() + timedelta(days=99)).nothing
    elif noted.dead_since != NEVER:
        early = from_millis(noted.dead_since) - timedelta(seconds=1)  # noted once the commit is made
        assert plan_vacuum(target, VacuumOptions(0, force=True, latest=early), now=clock()).nothing
    _prices_agree(target, noted, opened, step)


def _prices_agree(target: ScopeTarget, noted: UpkeepNote, opened: ScopeTable, step: str) -> None:
    """With what the operations' own plans say, and with the files that are there."""
    folding = plan_compact(target, CompactOptions(ratio=None), now=system_clock())
    packing = plan_optimize(target, OptimizeOptions(ratio=None), now=system_clock())
    for plan, files, size in (
        (folding, noted.compact_files, noted.compact_bytes),
        (packing, noted.optimize_files, noted.optimize_bytes),
    ):
        expected = (0, 0) if plan.nothing else (plan.metrics["files_removed"], plan.metrics["bytes_removed"])
        assert (files, size) == expected, (step, plan.operation)
    assert noted.optimize_made == (0 if packing.nothing else packing.metrics["files_added"])
    live = {file.path for file in opened.files()}
    root = Path(target.location.uri.removeprefix("file://"))
    assert noted.dead_bytes == sum(path.stat().st_size for path in root.glob("*.parquet") if path.name not in live), step


@pytest.mark.disk
def test_only_the_states_copy_says_what_maintenance_needs(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path)) as lake:
        make_notes(lake).write(notes({1: "text"}), user="ann")
        lake.flush()
        target = _target(lake)
        assert OPERATIONS[_upkeep(target).operation] == "WRITE"
        assert target.floor is not None
        assert target.root is not None
        stored = floor_at(FloorLocation.on_storage(target.root.location, target.floor.table_id)).look().known(target.mark)
        assert stored is not None
        assert (stored.version, stored.upkeep) == (0, None)


@pytest.mark.disk
def test_dead_bytes_are_unknown_behind_the_commit_of_another_and_known_again_behind_a_vacuum(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path), settings=SETTINGS) as lake:
        table = make_notes(lake)
        for text in ("one", "two"):
            table.write(notes({1: text}), user="ann")
            lake.flush()
        assert _upkeep(_target(lake)).dead_bytes > 0
        DeltaTable(_target(lake).location.uri).alter.set_table_properties({"delta.appendOnly": "false"})
        table.write(notes({2: "three"}), user="ann")
        lake.flush()
        assert _upkeep(_target(lake)).dead_bytes == UNSEEN
        lake.vacuum(NOTES, user="ann", retain_hours=0, force=True, dry_run=False)
        assert _upkeep(_target(lake)).dead_bytes == 0


@pytest.mark.slow
@pytest.mark.disk
def test_a_restore_leaves_open_how_much_is_dead(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path), settings=SETTINGS) as lake:
        table = make_notes(lake)
        for text in ("one", "two"):
            table.write(notes({1: text}), user="ann")
            lake.flush()
        lake.restore(NOTES, user="ann", version=0, dry_run=False)
        assert _upkeep(_target(lake)).dead_bytes == UNSEEN


def test_sizes_say_nothing_where_not_all_files_are_listed(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path), settings=SETTINGS) as lake:
        make_notes(lake).write(notes({1: "text"}), user="ann")
        flushed = lake.flush()[0]
        target = _target(lake)
    listed = ScopeState(1, 1, 1, 1000, 1, layout=((1, 1000),))
    noted = [upkeep_of(target, flushed, state, from_millis(0)) for state in (listed, replace(listed, files=2))]
    assert [(each.compacted == 0, each.optimized == 0) for each in noted] == [(False, False), (True, True)]
