"""Restore: brings scopes back to an earlier version. Its options."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakewarden.maintenance.options import OfUser, option


@dataclass(frozen=True)
class RestoreOptions(OfUser):
    """Exactly one of version and timestamp. A timestamp without a zone is UTC."""

    version: int | None = option(None, "The Delta version to go back to; on a USER table with --user.", form=False)
    timestamp: datetime | None = option(None, "A time, ISO 8601; without an offset it is UTC.", form=False)
    discard_pending: bool = option(False, "Drop the scope's pending rows instead of flushing them first.")
    discard_to: int | None = None
    """Drop the scope's pending rows up to this `_seq`: the commit sets the watermark there, so no flush applies them."""
    always: bool = False
    """Commit also where the rows are those of the version already, as K3 has it."""


OPTIONS = RestoreOptions
