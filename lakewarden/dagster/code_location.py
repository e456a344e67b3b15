"""The code location that a workspace names: the command line's warehouse, `LAKEWARDEN_WAREHOUSE` or `./warehouse`."""

from __future__ import annotations

from lakewarden.dagster import build_definitions

defs = build_definitions()
