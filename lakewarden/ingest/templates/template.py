"""A template: a named function with the extensions that it accepts; an object in, Arrow rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.ingest.templates.object_file import ObjectFile

Columns = Mapping[str, ColumnType]
"""The columns of a table by name, in order; empty while the table has no schema."""

Options = TypeVar("Options")

Rows = pa.Table | pa.RecordBatch | Iterable[pa.Table | pa.RecordBatch]


@dataclass(frozen=True)
class NoOptions:
    """The options of a template that has none."""


@dataclass(frozen=True)
class Library:
    """A library that a template needs, and the extra of Lakewarden that brings it."""

    module: str
    extra: str


@dataclass(frozen=True)
class Template(Generic[Options]):
    """What an entry point of the group `lakewarden.templates` names; or it names a plain function (`of_function`).

    `read` is called in a process of its own, with the object, the options and the table's columns. It yields rows in the
    object's order, in batches of one schema. For an object that it cannot read, it raises `InvalidArgument` or
    `Unsupported` (lakewarden.errors) with the reason; any other error rejects the object too. A value of a nested type
    becomes JSON; a text column is one of another type of the catalog where its field's metadata says so (`lakewarden.type`).
    """

    name: str
    accepted_extensions: tuple[str, ...]
    """Without the leading dot, as in `csv` and `csv.gz`."""
    read: Callable[[ObjectFile, Options, Columns], Iterable[pa.RecordBatch]]
    options: type[Options] | type[NoOptions] = NoOptions
    """A frozen dataclass with a default for every field."""
    libraries: tuple[Library, ...] = ()
    """Those that an installation may lack."""
    sparse: bool = False
    """Whether objects may lack columns of the table, as JSON does: their rows have NULL there. Else the object is rejected."""

    @classmethod
    def of_function(cls, name: str, function: Callable[[ObjectFile], Rows]) -> Template[NoOptions]:
        """A function without options. Its attribute `accepted_extensions` says which it accepts."""

        def read(source: ObjectFile, _options: NoOptions, _columns: Columns) -> Iterator[pa.RecordBatch]:
            made = function(source)
            for each in (made,) if isinstance(made, pa.Table | pa.RecordBatch) else made:
                yield from each.to_batches() if isinstance(each, pa.Table) else (each,)

        return Template(name, tuple(getattr(function, "accepted_extensions", ())), read)
