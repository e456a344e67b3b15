"""Repair: makes what damage has hidden readable again. Its options."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.maintenance.options import OfUser, option


@dataclass(frozen=True)
class RepairOptions(OfUser):
    """What a repair takes."""

    restored: bool = option(False, "The warehouse or its data was just restored from a backup.")


OPTIONS = RepairOptions
