"""Lakewarden in Dagster: tables as assets, operations as jobs, and the sensors and schedules that start them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg


def build_definitions() -> dg.Definitions:
    """The definitions of the warehouse that `LAKEWARDEN_WAREHOUSE` names, for a code location."""
    from lakewarden.dagster import (
        definitions,  # every process of Dagster loads the launcher below this package, and needs no more
    )

    return definitions.build_definitions()


__all__ = ["build_definitions"]
