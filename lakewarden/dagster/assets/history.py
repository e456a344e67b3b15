"""The newest commits of a scope, as each of its events shows them: a short line a commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime

import dagster as dg

from lakewarden.catalog.operations import SPECS
from lakewarden.catalog.report import ScopeReport
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.delta.history import HistoryEntry

HISTORY = "history"

SHOWN = 10
"""Commits of which an event has a line. Every flush of every scope stores them: ten lines are some 250 bytes, packed."""


@dataclass(frozen=True)
class CommitLine:
    """One commit. `rows` and `files` are as `+12 ~3 -1`: added, changed, removed; empty where none were, or nothing is known."""

    version: int
    timestamp: str
    """In UTC, to the second; empty where it is unknown."""
    operation: str
    """In this project's words; of another program's commit, in Delta's."""
    rows: str = ""
    files: str = ""


_ROWS = {
    "+": ("rowsinserted", "rowsadded", "restoredrows", "addedrows"),
    "~": ("rowsupdated", "updatedrows"),
    "-": ("rowsdeleted", "rowsremoved", "deletedrows", "removedrows"),
}
_FILES = {"+": ("filesadded", "addedfiles", "restoredfiles", "files"), "-": ("filesremoved", "removedfiles")}
"""Names of one number, as `_plain` spells them: in reports, in our commits, in Spark's and delta-rs's. The first one counts."""

_OUTPUT = "numOutputRows"
"""Of a commit that only writes, the rows that came; of any other also those that it wrote again."""
_WRITES = frozenset({"WRITE", "STREAMING UPDATE", "CREATE TABLE AS SELECT", "REPLACE TABLE AS SELECT", "COPY INTO"})


def line_of_report(report: ScopeReport) -> CommitLine | None:
    """The line of the commit that an operation made; None if it made none, as may be of a vacuum."""
    if report.outcome != "done" or report.version is None or report.operation == "vacuum":
        return None
    at = report.finished_at
    return CommitLine(report.version, _second(at) if at else "", report.operation, *_counts(report.metrics))


def line_of_entry(entry: HistoryEntry) -> CommitLine:
    written = entry.operation_metrics.get(_OUTPUT) if entry.operation in _WRITES else None
    metrics = {"rows_added": written, **entry.operation_metrics} if written else entry.operation_metrics
    return CommitLine(entry.version, _second(entry.timestamp), operation_of(entry), *_counts(metrics))


_BY_PREFIX = {spec.prefix: name for name, spec in SPECS.items()}


def operation_of(commit: HistoryEntry) -> str:
    """The operation in this project's words, by the id of the job that made the commit; Delta's word for another program's."""
    return _BY_PREFIX.get(job_id_of(commit).partition("-")[0], commit.operation.replace("|", " "))


def job_id_of(commit: HistoryEntry) -> str:
    return str(commit.user_metadata.get("job_id", ""))


def _second(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _counts(metrics: Mapping[str, int | str]) -> tuple[str, str]:
    plain = {_plain(name): count for name, count in metrics.items()}
    return _signed(plain, _ROWS), _signed(plain, _FILES)


def _plain(name: str) -> str:
    """`numTargetRowsInserted`, `num_target_rows_inserted` and `rows_inserted` are one."""
    return name.lower().replace("_", "").removeprefix("num").removeprefix("target")


def _signed(metrics: Mapping[str, int | str], names: Mapping[str, Sequence[str]]) -> str:
    found = {sign: next((metrics[name] for name in several if name in metrics), 0) for sign, several in names.items()}
    return " ".join(f"{sign}{count}" for sign, count in found.items() if count)


_HEAD = ["version|timestamp|operation|rows|files", "-|-|-|-|-"]


def history_text(lines: Iterable[CommitLine]) -> dg.MarkdownMetadataValue:
    """The lines as Markdown: Dagster's own table takes 250 bytes more of every event, and as long again to store and to read."""
    return dg.MetadataValue.md("\n".join([*_HEAD, *("|".join(map(str, astuple(line))) for line in lines)]))


def lines_in(event: dg.AssetMaterialization) -> list[CommitLine]:
    """The lines that an event shows, newest first; none if it is of an earlier release, which had a table."""
    shown = event.metadata.get(HISTORY)
    if not isinstance(shown, dg.MarkdownMetadataValue) or not shown.value:
        return []
    cells = (line.split("|") for line in shown.value.splitlines()[len(_HEAD) :])
    return [CommitLine(int(version), *texts) for version, *texts in cells]


def history_table(lines: Iterable[CommitLine]) -> dg.TableMetadataValue:
    """The lines as Dagster's own table, which a run's page shows without a click."""
    return table_value(vars(line) for line in lines)
