"""What work on one scope's Delta table is given. A picklable value: it crosses to Spark's tasks."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.catalog.model import Compression, TableSchema
from lakewarden.connection import Location, StorageRoot
from lakewarden.scope import Scope
from lakewarden.state.floor_entries import FloorPlace, Known


@dataclass(frozen=True)
class ScopeTarget:
    """All that work on one scope's Delta table needs to know."""

    scope: Scope
    location: Location
    """Where its Delta table lies; no credential in it."""
    schemas: tuple[TableSchema, ...]
    """Every schema version of the table, oldest first; the last one is current."""
    app_id: str
    """Application id of the flush watermark: `lakewarden/<warehouse uuid>/<log partition uuid>` (docs/log.md)."""
    compression: Compression
    target_file_size: int
    retention_hours: int
    root: StorageRoot | None = None
    """The storage on which it is; None where that is not compared."""
    mark: str = ""
    """The scope's keyed hash (`state.erasures`); empty in a warehouse of format 1."""
    floor: FloorPlace | None = None
    """The floor of its table in the warehouse's state; None in a warehouse of format 1."""
    known: Known | None = None
    """What that floor knew of the scope when the target was made; None where it knew nothing, and where that is not compared."""

    @property
    def uri(self) -> str:
        return self.location.uri

    @property
    def schema(self) -> TableSchema:
        return self.schemas[-1]
