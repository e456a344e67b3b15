"""`python -m benchmarks NAME … [--scale full|small|tiny]`; see `NAMES`."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import (
    booking,
    fold,
    large,
    maintenance,
    million,
    object_store,
    opening,
    partitions,
    query,
    quiet,
    serve,
    survey,
    write,
)
from benchmarks.flush import floor, growth
from benchmarks.flush import measure as flush
from benchmarks.flush import requests as flush_requests
from benchmarks.ingest import measure as ingest
from benchmarks.measuring.page import Section, rewrite
from benchmarks.measuring.scale import SCALES, Scale
from benchmarks.spark import measure as source
from lakewarden.base.setting_sections import SparkSettings
from lakewarden.spark.session import start_session

NAMES = (
    *("flush", "floor", "growth", "maintenance", "write", "query", "quiet", "million", "requests", "booking"),
    *("spark", "serve", "partitions", "fold", "large", "opening"),
    *("object_store", "ingest", "survey"),
)
_BY_DEFAULT = NAMES[:-3]
"""Without the one that takes the machine for an hour, and those that need a process of their own for other JARs."""

_ALONE = {
    "write": write.run,
    "quiet": quiet.run,
    "million": million.run,
    "query": query.run,
    "partitions": partitions.run,
    "fold": fold.run,
    "serve": serve.run,
    "opening": opening.run,
    "object_store": object_store.run,  # with a session of its own, which must be the process's first: run it alone
    "ingest": ingest.run,  # as well
    "survey": survey.run,  # as well
}
"""Those that take no session of Spark from here."""

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def measure(name: str, scale: Scale, place: Path) -> Section:
    """Runs one benchmark in an empty directory."""
    if name == "requests":
        return flush_requests.run(scale)
    if name in _ALONE:
        return _ALONE[name](scale, place)
    spark = start_session(SparkSettings())
    of = {
        "booking": booking.run,
        "floor": floor.run,
        "flush": flush.run,
        "growth": growth.run,
        "large": large.run,
        "maintenance": maintenance.run,
        "spark": source.run,
    }
    return of[name](scale, place, spark)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures, and rewrites docs/performance.md.")
    parser.add_argument(
        "names", nargs="*", choices=[*NAMES, "all"], default=["all"], help="what to measure; all where none is named"
    )
    parser.add_argument("--scale", choices=list(SCALES), default="full", help="only figures of scale full go into the page")
    parser.add_argument("--place", type=Path, help="directory for the data, on the disk that is to be measured")
    given = parser.parse_args(arguments)
    if given.place is not None:
        given.place.mkdir(parents=True, exist_ok=True)
    for name in _BY_DEFAULT if "all" in given.names else given.names:
        with tempfile.TemporaryDirectory(prefix="lakewarden-bench-", dir=given.place) as place:
            section = measure(name, SCALES[given.scale], Path(place))
        now = datetime.now(UTC)
        print(f"## {name}\n\n{section.text(now)}\n", flush=True)
        if given.scale == "full":
            rewrite(PAGE, section, now)


if __name__ == "__main__":
    main()
