"""The code location that `workspace.yaml` names: the warehouse of `LAKEWARDEN_WAREHOUSE`."""

from __future__ import annotations

from lakewarden.dagster import build_definitions

defs = build_definitions()
