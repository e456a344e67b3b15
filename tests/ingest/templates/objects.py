"""Objects in memory, read by a template in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.ingest.templates.fitting import ObjectFitting
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.options import parse_options
from lakewarden.ingest.templates.template import Template


def object_of(data: bytes, key: str = "in/a", **bounds: int) -> ObjectFile:
    return ObjectFile(key, len(data), lambda start, length: data[start : start + length], **bounds)


def columns(**types: str) -> dict[str, ColumnType]:
    return {name: ColumnType.parse(text) for name, text in types.items()}


def read(
    template: Template[Any], source: ObjectFile | bytes, table: Mapping[str, ColumnType] | None = None, **options: object
) -> pa.Table:
    """All rows, in the catalog's types."""
    given = object_of(source) if isinstance(source, bytes) else source
    fitting = ObjectFitting(table or {})
    rows = [fitting(batch) for batch in template.read(given, parse_options(template, options), table or {})]
    return pa.Table.from_batches(rows)


def types_of(rows: pa.Table) -> dict[str, str]:
    return {field.name: (field.metadata or {})[b"lakewarden.type"].decode() for field in rows.schema}
