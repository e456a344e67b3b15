"""The code location that `workspace.yaml` names: the warehouse of `LAKEWARDEN_WAREHOUSE`."""

from __future__ import annotations

from lakewarden.dagster.definitions import build_code_location

defs = build_code_location()
