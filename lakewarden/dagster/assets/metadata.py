"""The metadata of a scope's event: what an operation did, under Dagster's own keys where they exist.

Numbers have the same keys on every event, because Dagster plots them over time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime

import dagster as dg

from lakewarden.base.quantities import by_name, in_units
from lakewarden.base.scope import Scope
from lakewarden.catalog.operations import SPECS
from lakewarden.catalog.report import ScopeReport
from lakewarden.dagster.assets.partition_values import PartitionState
from lakewarden.delta.reading.history import HistoryEntry
from lakewarden.storage.location import join


def no_markup(text: str, most: int) -> str:
    """A text in Markdown, short and as no markup: in it may be what other programs wrote."""
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return re.sub(r"([|\\`*<>\[\]])", r"\\\1", " ".join(short.split()))


def markdown_line(*cells: str | int) -> str:
    """A line of a table in Markdown."""
    return f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else cell for cell in cells)} |"


VERSION = "delta/version"
"""The version that the event's commit made. No two events of a partition have the same."""

UNCHANGED_AT = "delta/unchanged_at"
"""The version that an operation found, and left as it was."""

Metadata = dict[str, dg.MetadataValue | int | float | str]
"""Dagster makes values of its own of plain ones."""


@dataclass(frozen=True)
class Backlog:
    """Hot rows of a scope that wait for a flush, and their bytes in the log."""

    rows: int
    bytes: int


NO_BACKLOG = Backlog(0, 0)


def scope_metadata(report: ScopeReport, backlog: Backlog = NO_BACKLOG) -> Metadata:
    """The metadata of one scope's event, but for its history and links."""
    # What is not zero, as one text: each entry of an event costs 130 bytes, for every scope and flush.
    counted = {name: by_name(name, value) for name, value in report.metrics.items() if value}
    state, rows = report.state, "dagster/row_count" if report.scope.user is None else "dagster/partition_row_count"
    return _known(
        {
            "path": _link(report.uri),
            rows: state.rows if state else None,
            "operation": report.operation,
            "outcome": "" if report.outcome == "done" else report.outcome,
            "reason": report.reason,
            "committed_at": dg.MetadataValue.timestamp(report.finished_at) if report.finished_at else None,
            "hot/backlog_bytes": backlog.bytes,
            VERSION: report.version,
            "delta/num_files": state.files if state else None,
            "delta/bytes": state.bytes if state else None,
            "size": in_units(state.bytes) if state else "",
            "parameters": _flat(report.parameters),
            "metrics": _flat(counted),
            "files": table_value({"path": path} for path in report.files[:_FILES_SHOWN]) if report.files else None,
        }
    )


def partition_metadata(report: ScopeReport, key: str, state: PartitionState | None) -> Metadata:
    """The metadata of an event of one partition of a large table."""
    return _known(
        {
            "size": in_units(state.bytes) if state else "",
            "path": _link(join(report.uri, key)),
            "operation": report.operation,
            "committed_at": dg.MetadataValue.timestamp(report.finished_at) if report.finished_at else None,
            VERSION: report.version,
            "dagster/partition_row_count": state.rows if state else None,
            "delta/num_files": state.files if state else None,
            "delta/bytes": state.bytes if state else None,
        }
    )


def _known(found: Mapping[str, dg.MetadataValue | int | str | None]) -> Metadata:
    """Without what is not known, and texts that say nothing."""
    return {name: value for name, value in found.items() if value is not None and value != ""}


def _link(uri: str) -> dg.MetadataValue:
    """A local place as a path, which the UI can copy; anything else as a link."""
    return dg.MetadataValue.url(uri) if "://" in uri else dg.MetadataValue.path(uri)


WORST = 20


def crowd_metadata(reports: Sequence[ScopeReport], backlogs: Mapping[Scope, Backlog]) -> Metadata:
    """The scopes of a table that has too many users for partitions: the worst of those that an operation touched.

    The worst have the most hot rows, then the most files.
    """
    rows = [_standing(report, backlogs.get(report.scope, NO_BACKLOG)) for report in reports]
    worst = sorted(rows, key=lambda row: (row["backlog_rows"], row["files"]), reverse=True)[:WORST]
    return {
        "operation": reports[0].operation,
        "dagster/table_name": str(reports[0].scope.table),
        "worst": table_value(worst),
    }


def _standing(report: ScopeReport, backlog: Backlog) -> dict[str, int | str]:
    state = report.state
    standing: dict[str, int | str] = {"version": -1, "rows": 0, "files": 0, "size": ""}
    if state:
        standing = {"version": state.version, "rows": state.rows, "files": state.files, "size": in_units(state.bytes)}
    return {"user": report.scope.user or "", "backlog_rows": backlog.rows, **standing, "path": report.uri}


_FILES_SHOWN = 100
"""Events must stay small: a vacuum of thousands of files lists the first ones, and `metrics` has their number."""


def _flat(values: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


Cell = str | int | float | bool | None
Row = Mapping[str, Cell]

_TYPES = {bool: "bool", int: "int", float: "float"}


def table_value(rows: Iterable[Row]) -> dg.TableMetadataValue:
    """Rows of the same columns as Dagster's table; the first row names them and their types."""
    records = [dg.TableRecord(row) for row in rows]
    first = records[0].data if records else {}
    columns = [dg.TableColumn(name, _TYPES.get(type(cell), "string")) for name, cell in first.items()]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(columns=columns))


# The newest commits of a scope, as each of its events shows them: a short line a commit.
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
