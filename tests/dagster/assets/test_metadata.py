"""The metadata of a scope's event: Dagster's names, stable numbers, tables of plain cells."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.report import ScopeReport, ScopeState
from lakewarden.dagster.assets.metadata import NO_BACKLOG, Backlog, scope_metadata, table_value
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

TABLE = TableName("chat", "messages")
STATE = ScopeState(version=3, rows=12, files=2, bytes=999, last_seq=77)


def report(user: str | None, uri: str = "/lake/x") -> ScopeReport:
    return ScopeReport(
        Scope(TABLE, user),
        "optimize",
        "done",
        Location(uri),
        version=3,
        parameters={"zorder": "id"},
        metrics={"files_removed": 4, "rows_evicted": 0, "bytes_removed": 2_048},
        state=STATE,
        files=("a.parquet",),
    )


def shown(reported: ScopeReport, backlog: Backlog = NO_BACKLOG) -> Mapping[str, dg.MetadataValue]:
    """As Dagster keeps it."""
    return dg.AssetObservation("asset", metadata=scope_metadata(reported, backlog)).metadata


def test_a_partition_counts_its_rows_and_an_asset_its_own() -> None:
    assert shown(report("ada"))["dagster/partition_row_count"].value == 12
    assert shown(report(None))["dagster/row_count"].value == 12


def test_numbers_stand_under_stable_keys() -> None:
    metadata = shown(report("ada"), backlog=Backlog(5, 50))
    numbers = {name: value.value for name, value in metadata.items() if isinstance(value, dg.IntMetadataValue)}
    assert numbers == {
        "dagster/partition_row_count": 12,
        "delta/version": 3,
        "delta/num_files": 2,
        "delta/bytes": 999,
        "hot/backlog_bytes": 50,
    }
    assert metadata["parameters"].value == "zorder=id"
    assert metadata["metrics"].value == "files_removed=4 bytes_removed=2.0 KiB"


def test_the_path_is_a_path_here_and_a_link_elsewhere() -> None:
    assert isinstance(shown(report("ada"))["path"], dg.PathMetadataValue)
    assert isinstance(shown(report("ada", "s3://lake/x"))["path"], dg.UrlMetadataValue)


def test_a_scope_without_a_table_has_no_numbers() -> None:
    nothing = ScopeReport(Scope(TABLE, "ada"), "flush", "planned", Location("/lake/x"), reason="3 pending rows")
    assert {"delta/version", "dagster/partition_row_count", "history"}.isdisjoint(shown(nothing))


def test_a_table_takes_its_columns_from_its_rows() -> None:
    table = table_value([{"a": 1, "b": "x", "c": True, "d": 0.5}])
    assert [(column.name, column.type) for column in table.schema.columns] == [
        ("a", "int"),
        ("b", "string"),
        ("c", "bool"),
        ("d", "float"),
    ]
    assert table_value([]).records == []
