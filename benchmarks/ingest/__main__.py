"""Ingests what is new, as a process whose memory is measured, or that is killed: `python -m benchmarks.ingest URI TABLE`."""

from __future__ import annotations

import json
import resource
import sys
from time import perf_counter

from benchmarks.measuring.memory import peak_bytes
from lakewarden.client import Lakehouse


def main(uri: str, table: str) -> None:
    start = perf_counter()
    with Lakehouse.open(uri) as lake:
        report = lake.ingest(table)
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    found = {"seconds": perf_counter() - start, "rows": report.rows, "ingested": report.ingested, "rejected": report.rejected}
    print(json.dumps({**found, "own": peak_bytes(), "children": children}))


if __name__ == "__main__":
    main(*sys.argv[1:])
