"""The warehouse's tables as software-defined assets, with their checks. The code is `lakewarden/dagster/assets/`."""

from __future__ import annotations

from lakewarden.dagster.assets.checks import build_table_checks
from lakewarden.dagster.assets.tables import build_table_specs

__all__ = ["build_table_checks", "build_table_specs"]
