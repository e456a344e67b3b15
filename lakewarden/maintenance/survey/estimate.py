"""What each operation would do with a table now: who does it, or why it is refused, and what it costs.

The requests are those that our own operations make, as the meter counts them: one for each file that is read or written, one for
each commit, one for a thousand objects that are listed or deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewarden.base.setting_sections import PricesSettings
from lakewarden.delta.examination.kinds import DamageKind
from lakewarden.delta.features import OPERATIONS, Operation, route
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.replay.log_state import LogState
from lakewarden.maintenance.survey.table_survey import Damage, OperationEstimate, PlaceClass
from lakewarden.storage.meter import PAGE, dollars
from lakewarden.tables.upkeep_files import pack_files

_LOG: tuple[DamageKind, ...] = (
    "torn-commit",
    "checkpoint-unreadable",
    "checkpoint-contradicts",
    "log-gap",
    "unknown-feature",
    "unknown-action",
    "unknown-storage-type",
)
"""Damage with which the log does not prove which files are dead."""

_ROWS: tuple[DamageKind, ...] = (
    "hollow",
    "size-differs",
    "vector-gone",
    "vector-short",
    "partition-value-nulled",
    "duplicate-live-path",
    "unknown-storage-type",
)
"""Damage that a rewrite would make part of every copy of the rows."""

_LOST: tuple[DamageKind, ...] = ("hollow", "size-differs", "vector-gone", "vector-short", "unknown-storage-type")
"""Damage with which rows can't be read."""

_REFUSED_BY: Mapping[Operation, tuple[DamageKind, ...]] = {
    "read": _LOST,
    "vacuum": _LOG,
    "compact": (*_ROWS, "torn-commit", "log-gap"),
    "cluster": (*_ROWS, "torn-commit", "log-gap"),
    "restore": (*_LOG, "outside-path"),
    "erase": ("outside-path", "unknown-feature", "unknown-action"),
}

_BY_SPARK: Mapping[Operation, tuple[DamageKind, ...]] = {
    "read": ("outside-path",),
    "compact": ("outside-path",),
    "cluster": ("outside-path",),
}

_STOPPED = "only while its writers are stopped"
_OVERWRITE = f"its writers may overwrite a commit of ours: {_STOPPED}"
_REFUSED_AT: Mapping[PlaceClass, Mapping[Operation, str]] = {
    "overwrites": {"restore": _OVERWRITE, "erase": _OVERWRITE},
    "dynamodb": {"restore": f"we do not take its lock: {_STOPPED}", "erase": f"we do not take its lock: {_STOPPED}"},
    "unknown": {
        "restore": f"it is not known how its writers commit: {_STOPPED}",
        "erase": f"it is not known how its writers commit: {_STOPPED}",
    },
    "commit-service": dict.fromkeys(
        ("compact", "cluster", "restore", "erase"), "a service decides on its writers' commits: none but theirs go through"
    ),
}


@dataclass(frozen=True)
class SurveyedTable:
    """What the estimates rest on."""

    state: LogState
    damage: Sequence[Damage]
    place_class: PlaceClass
    objects: int
    """All that is in its directory."""
    dead_files: int
    on_disk: bool
    target_size: int
    """Bytes of a file that an operation writes."""


def estimates(table: SurveyedTable, prices: PricesSettings) -> Mapping[str, OperationEstimate]:
    """Each operation's, by its name."""
    return {operation: _estimate(table, operation, prices) for operation in OPERATIONS}


def all_refused(reason: str) -> Mapping[str, OperationEstimate]:
    """Of a table that could not be read."""
    return {operation: OperationEstimate("refused", reason) for operation in OPERATIONS}


def _estimate(table: SurveyedTable, operation: Operation, prices: PricesSettings) -> OperationEstimate:
    found = route(table.state, operation)
    kinds = {each.kind for each in table.damage}
    if found.engine != "refused":
        if refusal := _refusal(table, operation, kinds):
            return OperationEstimate("refused", refusal)
        if by_spark := [kind for kind in _BY_SPARK.get(operation, ()) if kind in kinds]:
            found = type(found)("spark", f"{by_spark[0]}: its log names files outside of its directory")
    if found.engine == "refused":
        return OperationEstimate("refused", found.reason)
    requests, size = _work(table, operation)
    cost = 0.0 if table.on_disk else dollars({**requests, "bytes_in": size[0]}, prices)
    return OperationEstimate(found.engine, found.reason, requests.total(), sum(size), cost)


def _refusal(table: SurveyedTable, operation: Operation, kinds: set[DamageKind]) -> str:
    if operation == "vacuum" and 0 < table.state.files.num_rows == sum(
        each.count for each in table.damage if each.kind == "hollow"
    ):
        return "hollow: all live files are missing: the place or the log is another one's"
    if by := [kind for kind in _REFUSED_BY[operation] if kind in kinds]:
        return next(f"{each.kind}: {each.detail}" for each in table.damage if each.kind == by[0])
    return _REFUSED_AT.get(table.place_class, {}).get(operation, "")


def _work(table: SurveyedTable, operation: Operation) -> tuple[Counter[str], tuple[int, int]]:
    """Requests by kind, and bytes that are read and written."""
    files, size = table.state.files.num_rows, _sum(table.state)
    pages = max(1, -(-table.objects // PAGE))
    match operation:
        case "read":
            return Counter(GET=files), (size, 0)
        case "vacuum":
            return Counter(LIST=pages, DELETE=-(-table.dead_files // PAGE)), (0, 0)
        case "compact":
            packing = pack_files(_data_files(table.state), table.target_size)
            made, size = len(packing.bins), packing.bytes
            return Counter(GET=len(packing.inputs), CREATE=made + bool(made)), (size, size)
        case "cluster":
            made = -(-size // table.target_size)
            return Counter(GET=files, CREATE=made + bool(made)), (size, size)
        case "restore":
            return Counter(CREATE=1), (0, 0)
        case "erase":
            return Counter(LIST=2 * pages, DELETE=pages), (0, 0)  # it lists again, to prove that nothing is left


def _sum(state: LogState) -> int:
    return sum(size or 0 for size in state.files.column("size").to_pylist())


def _data_files(state: LogState) -> list[DataFile]:
    """As the planner of a compaction has them: those of one partition may become one."""
    columns = (state.files.column(name).to_pylist() for name in ("key", "size"))
    partitions = _partitions(state)
    return [
        DataFile(key, size or 0, None, 0, None, None, None, partition)
        for key, size, partition in zip(*columns, partitions, strict=True)
    ]


def _partitions(state: LogState) -> list[tuple[tuple[str, str | None], ...]]:
    if not state.metadata.partition_columns:
        return [()] * state.files.num_rows
    return [tuple(sorted(each or ())) for each in state.files.column("partitionValues").to_pylist()]
