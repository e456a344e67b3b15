"""What each operation would do with a table now: who does it, or why it is refused, and what it costs.

The requests are those that our own operations make, as the meter counts them (`tests/maintenance/survey/test_estimate.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lakewarden.base.setting_sections import PricesSettings
from lakewarden.delta.examination.kinds import UNKNOWN, DamageKind
from lakewarden.delta.features import OPERATIONS, Feature, Operation, in_use, route
from lakewarden.delta.replay.log_state import LogState
from lakewarden.maintenance.survey.table_survey import Damage, OperationEstimate, PlaceClass
from lakewarden.storage.meter import PAGE, Amounts, dollars
from lakewarden.tables.upkeep_files import FULL, first_fit

_LOG: tuple[DamageKind, ...] = (
    "torn-commit",
    "checkpoint-unreadable",
    "checkpoint-contradicts",
    "log-gap",
    "unknown-storage-type",
)
"""Damage with which the log does not prove which files are dead."""

_LOST: tuple[DamageKind, ...] = ("hollow", "size-differs", "vector-gone", "vector-short", "unknown-storage-type")
"""Damage with which rows can't be read."""

_ROWS: tuple[DamageKind, ...] = (*_LOST, "partition-value-nulled", "duplicate-live-path")
"""Damage that a rewrite would make part of every copy of the rows."""

_REFUSED_BY: Mapping[Operation, tuple[DamageKind, ...]] = {
    "read": _LOST,
    "vacuum": (*_LOG, *UNKNOWN),
    "compact": (*_ROWS, "torn-commit", "log-gap", *UNKNOWN),
    "cluster": (*_ROWS, "torn-commit", "log-gap", *UNKNOWN),
    "restore": (*_LOG, "outside-path", *UNKNOWN),
    "erase": ("outside-path", *UNKNOWN),
}

_BY_SPARK: Mapping[Operation, tuple[DamageKind, ...]] = dict.fromkeys(("read", "compact", "cluster"), ("outside-path",))

_STOPPED = "only while its writers are stopped"
_NEVER_AGAIN: tuple[Operation, ...] = ("restore", "erase")
_REFUSED_AT: Mapping[PlaceClass, Mapping[Operation, str]] = {
    "overwrites": dict.fromkeys(_NEVER_AGAIN, f"its writers may overwrite a commit of ours: {_STOPPED}"),
    "dynamodb": dict.fromkeys(_NEVER_AGAIN, f"we do not take its lock: {_STOPPED}"),
    "unknown": dict.fromkeys(_NEVER_AGAIN, f"it is not known how its writers commit: {_STOPPED}"),
    "commit-service": dict.fromkeys(
        ("compact", "cluster", *_NEVER_AGAIN), "a service decides on its writers' commits: none but theirs go through"
    ),
}


_FIXED: Mapping[str, Amounts] = {
    "vacuum": {"LIST": 15, "GET": 14, "CREATE": 5, "PUT": 1, "DELETE": 1},
    "compact": {"LIST": 3, "GET": 6, "CREATE": 3, "PUT": 2},
    "restore": {"LIST": 16, "GET": 14, "CREATE": 6, "PUT": 1},
    "read": {"LIST": 2},
}
"""What an operation of ours on one scope requests however large that is, as the meter counted it on MinIO: its plan, its fence,
its notes in the state, its commit. The rest grows with the files, the commits, and the pages of a listing."""

ERROR = 0.2
"""The share by which requests differed at most from those that the meter counted, for tables of 2 to 30 files. Of an
erasure nothing was counted: no operation of ours erases a table of others."""


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
    has_lost_all: bool = False
    """Whether no live file is there."""

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Bytes of each live file."""
        return [size or 0 for size in self.state.files.column("size").to_pylist()]


def estimates(table: SurveyedTable, prices: PricesSettings) -> Mapping[str, OperationEstimate]:
    """Each operation's, by its name."""
    used = in_use(table.state)
    return {operation: _estimate(table, operation, used, prices) for operation in OPERATIONS}


def all_refused(reason: str) -> Mapping[str, OperationEstimate]:
    """Of a table that could not be read."""
    return {operation: OperationEstimate("refused", reason) for operation in OPERATIONS}


def _estimate(table: SurveyedTable, operation: Operation, used: Sequence[Feature], prices: PricesSettings) -> OperationEstimate:
    found = route(table.state, operation, used)
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
    return OperationEstimate(found.engine, found.reason, sum(requests.values()), sum(size), cost, ERROR if requests else 0.0)


def _refusal(table: SurveyedTable, operation: Operation, kinds: set[DamageKind]) -> str:
    if operation == "vacuum" and table.has_lost_all:
        return "hollow: all live files are missing: the place or the log is another one's"
    if by := [kind for kind in _REFUSED_BY[operation] if kind in kinds]:
        return next(f"{each.kind}: {each.detail}" for each in table.damage if each.kind == by[0])
    return _REFUSED_AT.get(table.place_class, {}).get(operation, "")


def _with(fixed: str, **more: int) -> Amounts:
    """What is fixed, and more."""
    return {**_FIXED[fixed], **{kind: _FIXED[fixed].get(kind, 0) + count for kind, count in more.items()}}


def _work(table: SurveyedTable, operation: Operation) -> tuple[Amounts, tuple[int, int]]:
    """Requests by kind, and bytes that are read and written."""
    files, size = len(table.sizes), sum(table.sizes)
    pages = max(1, -(-table.objects // PAGE))
    match operation:
        case "read":
            return _with("read", GET=files + _log_reads(table.state)), (size, 0)
        case "vacuum":
            kept = len(table.state.log.commits)
            deleted = -(-table.dead_files // PAGE)
            return _with("vacuum", LIST=pages, GET=kept, DELETE=deleted), (0, 0)
        case "compact" | "cluster":
            files, made, size = _packed(table) if operation == "compact" else (files, -(-size // table.target_size), size)
            requests = _with("compact", GET=files + _log_reads(table.state), CREATE=made)
            return (requests, (size, size)) if files else ({}, (0, 0))  # where no file would be written again
        case "restore":
            return _with("restore", GET=len(table.state.log.commits)), (0, 0)
        case "erase":
            return {"LIST": 2 * pages, "DELETE": pages}, (0, 0)  # it lists again, to prove that nothing is left


def _log_reads(state: LogState) -> int:
    """The checkpoint, and the commits behind it."""
    start = -1 if state.checkpoint is None else state.checkpoint.version
    return (state.checkpoint is not None) + state.version - start


def _packed(table: SurveyedTable) -> tuple[int, int, int]:
    """How many files the planner of a compaction would pack, into how many, and their bytes: those of one partition may become
    one. By sizes alone, since there may be millions."""
    by_partition: dict[object, list[int]] = {}
    for size, partition in zip(table.sizes, _partitions(table.state), strict=True):
        if size < FULL * table.target_size:
            by_partition.setdefault(partition, []).append(size)
    inputs, made, packed = 0, 0, 0
    for sizes in by_partition.values():
        sizes.sort(reverse=True)
        bins = first_fit(sizes, table.target_size)
        counts = Counter(bins)
        several = [size for size, place in zip(sizes, bins, strict=True) if counts[place] > 1]
        inputs, packed = inputs + len(several), packed + sum(several)
        made += sum(count > 1 for count in counts.values())
    return inputs, made, packed


def _partitions(state: LogState) -> list[tuple[tuple[str, str | None], ...]]:
    if not state.metadata.partition_columns:
        return [()] * state.files.num_rows
    return [tuple(sorted(each or ())) for each in state.files.column("partitionValues").to_pylist()]
