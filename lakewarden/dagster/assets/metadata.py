"""The metadata of a scope's event: what an operation did, under Dagster's own keys where they exist.

Numbers have the same keys on every event, because Dagster plots them over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from lakewarden.base.quantities import in_units
from lakewarden.base.scope import Scope
from lakewarden.catalog.report import ScopeReport
from lakewarden.dagster.assets.partition_values import PartitionState
from lakewarden.storage.location import join

VERSION = "delta/version"
"""The version that the event's commit made. No two events of a partition have the same."""

UNCHANGED_AT = "delta/unchanged_at"
"""The version that an operation found, and left as it was."""

Metadata = dict[str, dg.MetadataValue]


@dataclass(frozen=True)
class Backlog:
    """Hot rows of a scope that wait for a flush, and their bytes in the log."""

    rows: int
    bytes: int


NO_BACKLOG = Backlog(0, 0)


def scope_metadata(report: ScopeReport, backlog: Backlog = NO_BACKLOG) -> Metadata:
    """The metadata of one scope's event, but for its history and links."""
    return {
        **_standard(report),
        "operation": dg.MetadataValue.text(report.operation),
        **({} if report.outcome == "done" else {"outcome": dg.MetadataValue.text(report.outcome)}),
        **({"reason": dg.MetadataValue.text(report.reason)} if report.reason else {}),
        **({"committed_at": dg.MetadataValue.timestamp(report.finished_at)} if report.finished_at else {}),
        **_numbers(report, backlog),
        **({"size": dg.MetadataValue.text(in_units(report.state.bytes))} if report.state else {}),
        **({"parameters": dg.MetadataValue.text(_flat(report.parameters))} if report.parameters else {}),
        **({"metrics": dg.MetadataValue.text(_flat(counted))} if (counted := _counted(report)) else {}),
        **({"files": _files(report.files)} if report.files else {}),
    }


def partition_metadata(report: ScopeReport, key: str, state: PartitionState | None) -> Metadata:
    """The metadata of an event of one partition of a large table."""
    numbers: dict[str, int | None] = {VERSION: report.version}
    if state:
        numbers |= {"dagster/partition_row_count": state.rows, "delta/num_files": state.files, "delta/bytes": state.bytes}
    return {
        **({"size": dg.MetadataValue.text(in_units(state.bytes))} if state else {}),
        "path": _link(join(report.uri, key)),
        "operation": dg.MetadataValue.text(report.operation),
        **({"committed_at": dg.MetadataValue.timestamp(report.finished_at)} if report.finished_at else {}),
        **{name: dg.MetadataValue.int(number) for name, number in numbers.items() if number is not None},
    }


def _counted(report: ScopeReport) -> dict[str, int]:
    """What is not zero. As one text: each entry of an event costs 130 bytes, for every scope and flush."""
    return {name: value for name, value in report.metrics.items() if value}


def _standard(report: ScopeReport) -> Metadata:
    count = "dagster/row_count" if report.scope.user is None else "dagster/partition_row_count"
    return {
        "path": _link(report.uri),
        **({count: dg.MetadataValue.int(report.state.rows)} if report.state else {}),
    }


def _link(uri: str) -> dg.MetadataValue:
    """A local place as a path, which the UI can copy; anything else as a link."""
    return dg.MetadataValue.url(uri) if "://" in uri else dg.MetadataValue.path(uri)


def _numbers(report: ScopeReport, backlog: Backlog) -> Metadata:
    numbers = {"hot/backlog_bytes": backlog.bytes}
    if report.version is not None:
        numbers[VERSION] = report.version
    if report.state:
        numbers |= {
            "delta/num_files": report.state.files,
            "delta/bytes": report.state.bytes,
        }
    return {name: dg.MetadataValue.int(value) for name, value in numbers.items()}


WORST = 20


def crowd_metadata(reports: Sequence[ScopeReport], backlogs: Mapping[Scope, Backlog]) -> Metadata:
    """The scopes of a table that has too many users for partitions: the worst of those that an operation touched.

    The worst have the most hot rows, then the most files.
    """
    rows = [_standing(report, backlogs.get(report.scope, NO_BACKLOG)) for report in reports]
    worst = sorted(rows, key=lambda row: (row["backlog_rows"], row["files"]), reverse=True)[:WORST]
    return {
        "operation": dg.MetadataValue.text(reports[0].operation),
        "dagster/table_name": dg.MetadataValue.text(str(reports[0].scope.table)),
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


def _files(files: Sequence[str]) -> dg.MetadataValue:
    return table_value({"path": path} for path in files[:_FILES_SHOWN])


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
