"""Says of one table what is there, what is damaged, and what each operation would do: who does it, or why not, and what it costs.

The requests are those that our own operations make, as the meter counts them (`tests/maintenance/survey/test_estimate.py`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import MaintenanceSettings, PricesSettings
from lakewarden.base.threads import COMPUTING
from lakewarden.delta.examination.examination import Examination, examine
from lakewarden.delta.examination.kept_log import KeptLog
from lakewarden.delta.examination.kinds import UNKNOWN, DamageKind
from lakewarden.delta.features import OPERATIONS, Feature, Operation, in_use, route, unknown_features
from lakewarden.delta.replay.log_state import LogState
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.maintenance.survey.listing import MOST_OBJECTS, FoundTable
from lakewarden.maintenance.survey.table_survey import Damage, OperationEstimate, PlaceClass, TableSurvey
from lakewarden.storage.location import local_path
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


@dataclass(frozen=True)
class SurveyOptions:
    """How a survey looks, and what it counts with."""

    prices: PricesSettings = field(default_factory=PricesSettings)
    deep: bool = False
    """Whether the footers of data files and the deletion vectors are read, too."""
    target_size: int = MaintenanceSettings().target_file_size
    """Bytes of a file that an operation would write."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def survey_table(location: Location, found: FoundTable, options: SurveyOptions, kept: KeptLog | None = None) -> TableSurvey:
    """Looks at one table. What keeps it from being read is said in `error`. `kept`: of its log, as of `examine`."""
    try:
        if found.left_out:
            most = f"{MOST_OBJECTS:,} of all tables that are looked at together are held in memory"
            raise Unsupported(f"{location.uri} has {found.left_out:,} objects: {most}")
        if found.refused:
            raise Unsupported(f"the log of {location.uri} cannot be read: {found.refused}")
        # reading a disk does not let go of it
        with COMPUTING.held() if local_path(location.uri) is None else nullcontext():
            seen = examine(location, found.listing, found.store, deep=options.deep, kept=kept)
            return _survey(location, found, seen, options)
    except LakewardenError as error:
        return _unreadable(location, found, f"{error.code}: {error.message}")
    except Exception as error:  # noqa: BLE001  # a log that any writer wrote must not end the survey of all other tables
        return _unreadable(location, found, f"INTERNAL: {type(error).__name__}: {error}")


def _unreadable(location: Location, found: FoundTable, error: str) -> TableSurvey:
    count = len(found.etags)
    size = None if found.left_out else sum(found.listing.sizes[:count])
    return TableSurvey(
        location.uri,
        "unreadable",
        log_bytes=size,
        log_objects=None if found.left_out else count,
        error=error,
        operations=all_refused("it could not be read"),
    )


def _survey(location: Location, found: FoundTable, seen: Examination, options: SurveyOptions) -> TableSurvey:
    figures, state = seen.figures, seen.state
    damage = tuple(Damage(cast("DamageKind", note.kind), note.detail, note.versions) for note in seen.notes)
    place = _place(location, seen, options)
    operations, features = all_refused(seen.error or "no version of it opens"), tuple[str, ...]()
    if state is not None:
        features = (*(feature.name for feature in in_use(state)), *unknown_features(state.protocol))
        on_disk = local_path(location.uri) is not None
        # whatever is neither in the log, live, nor another's
        dead = max(0, len(found.listing.keys) - len(found.etags) - (figures.files or 0) - (figures.alien_files or 0))
        keys = state.files.column("key").to_pylist() if any(each.kind == "hollow" for each in damage) else None
        lost = keys is not None and {*found.listing.keys}.isdisjoint(keys)
        facts = SurveyedTable(state, damage, place, len(found.listing.keys), dead, on_disk, options.target_size, lost)
        operations = estimates(facts, options.prices)
    return TableSurvey(
        location.uri,
        seen.verdict,
        None if state is None else state.metadata.id,
        None if state is None else state.version,
        damage,
        features,
        place,
        seen.error,
        operations,
        **vars(figures),
    )


def _place(location: Location, seen: Examination, options: SurveyOptions) -> PlaceClass:
    if seen.verdict == "catalog":
        return "catalog"
    engines = ("Apache-Spark/",) if seen.read == "checksum" else seen.figures.writers
    return place_class(location.uri, engines, options.environment)


# How the writers of a place keep each other's commits apart, as far as a log and the kind of its store tell. Nothing is tried: a
# look that wrote would be no survey. Sources: Delta's documentation, "Storage configuration" (its default on S3 is for a single
# driver); the documentation of delta-rs, "Writing to S3".

LOCKS = "AWS_S3_LOCKING_PROVIDER"
"""Delta-rs's own setting. In a log there is no trace of a lock."""

_CLASSES: Mapping[str, PlaceClass] = {
    "databricks-runtime/": "commit-service",
    **dict.fromkeys(("apache-spark/", "apache-flink/"), "overwrites"),
    **dict.fromkeys(("delta-rs", "deltalake", "lakewarden"), "conditional"),
}


def place_class(uri: str, engines: Iterable[str], environment: Mapping[str, str]) -> PlaceClass:
    """The class of a table's place, unless a catalog decides on its commits.

    Args:
        uri: of the table, in its canonical form.
        engines: the `engineInfo` of the commits that are known.
    """
    if not uri.startswith("s3://"):
        return "conditional"  # a disk, Google and Azure create a file only where there is none, for every writer
    classes = {_class_of(engine) for engine in engines}
    for worst in ("commit-service", "overwrites", "unknown"):
        if worst in classes:
            return "dynamodb" if environment.get(LOCKS, "").lower() == "dynamodb" and worst != "commit-service" else worst
    return "conditional" if classes else "unknown"


def _class_of(engine: str) -> PlaceClass:
    name = engine.strip().lower()
    return next((found for begin, found in _CLASSES.items() if name.startswith(begin)), "unknown")
