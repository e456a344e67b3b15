"""The code location that a workspace names: the command line's warehouse, `LAKEWARDEN_WAREHOUSE` or `./warehouse`."""

from __future__ import annotations

import dagster as dg

from lakewarden.dagster import build_definitions

defs = dg.Definitions.merge(
    build_definitions(),
    dg.Definitions(executor=dg.in_process_executor),  # of assets' runs: a step in a process of its own may start a JVM of its own
)
