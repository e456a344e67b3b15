"""Move: brings a table to another storage. Its options."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.maintenance.options import Options, option


@dataclass(frozen=True)
class MoveOptions(Options):
    """What a move takes."""

    to: str | None = option(None, "The storage to move to; or the directory or URI to export to.")


OPTIONS = MoveOptions
