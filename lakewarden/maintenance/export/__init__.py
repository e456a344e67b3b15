"""Export: copies all data of a user to another place. Its options."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.maintenance.options import OfUser, option


@dataclass(frozen=True)
class ExportOptions(OfUser):
    """What an export takes."""

    to: str | None = option(None, "The storage to move to; or the directory or URI to export to.")


OPTIONS = ExportOptions
