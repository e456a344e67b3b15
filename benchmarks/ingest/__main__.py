"""Ingests what is new, as a process whose memory is measured, or that is killed: `python -m benchmarks.ingest URI TABLE`."""

from __future__ import annotations

import json
import resource
import sys
from time import perf_counter

from lakewarden.client import Lakehouse


def main(uri: str, table: str) -> None:
    start = perf_counter()
    with Lakehouse.open(uri) as lake:
        report = lake.ingest(table)
    own, children = (resource.getrusage(who).ru_maxrss << 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    found = {"seconds": perf_counter() - start, "rows": report.rows, "ingested": report.ingested, "rejected": report.rejected}
    print(json.dumps({**found, "own": own, "children": children}))


if __name__ == "__main__":
    main(*sys.argv[1:])
