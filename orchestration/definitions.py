"""The code location that `workspace.yaml` names: the warehouse of `LAKEWARDEN_WAREHOUSE`."""

from __future__ import annotations

from lakewarden.dagster.code_location import defs

__all__ = ["defs"]
