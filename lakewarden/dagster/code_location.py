"""The code location that `lakewarden ui` serves: the command line's warehouse, `LAKEWARDEN_WAREHOUSE` or `./warehouse`."""

from __future__ import annotations

from lakewarden.dagster.definitions import build_code_location

defs = build_code_location()
