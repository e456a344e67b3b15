"""Pipelines and their rules: objects of the catalog of their own, which outlive the table that they were made with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lakewarden.base.scope import TableName

MissingColumns = Literal["reject", "null"]

OBJECT = "_object"
"""The hidden column of a pipeline's table: the key of the object that a row came from."""


@dataclass(frozen=True)
class Pipeline:
    """A template bound to a table, with its source and options."""

    id: str
    table: TableName
    table_id: str
    """Of the table that it was made with: a later table of the same name is another one."""
    template: str
    source: str
    """Where objects are uploaded: a place, or a path below the warehouse."""
    created_at: datetime
    options: str = "{}"
    """The template's, as the text of a JSON object."""
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    missing_columns: MissingColumns = "reject"
    """What an object that lacks a column of the table is: a reject, or rows with NULL there."""
    landed: int = 0
    """The last attempt that counts although the table has no schema, since it brought no rows (`ingest.objects`)."""


@dataclass(frozen=True)
class IngestRule:
    """Which objects of a pipeline's source it takes: those that a glob, the MIME types and the sizes accept, and no exclude."""

    id: str
    pipeline_id: str
    globs: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    excludes: tuple[str, ...] = ()
    mime_types: tuple[str, ...] = ()
    """Any, where it is empty."""
    min_size: int = 0
    max_size: int | None = None
    """Bytes."""
    enabled: bool = True
