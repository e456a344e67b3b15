"""The template `documents`: each row is a chunk of a document's text, with its page, its place and its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import pyarrow as pa
from msgspec import Meta

from lakewarden.catalog.column_types import ColumnType
from lakewarden.errors import Unsupported
from lakewarden.ingest.templates import document_formats
from lakewarden.ingest.templates.document_formats import Paragraph, chunks
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.template import Columns, Library, Template
from lakewarden.ingest.templates.types import schema_of

_ROWS = 1 << 10

_COLUMNS = {
    "source": ColumnType.parse("TEXT"),
    "page": ColumnType.parse("INT"),
    "position": ColumnType.parse("INT"),
    "text": ColumnType.parse("TEXT"),
}


@dataclass(frozen=True)
class DocumentOptions:
    """How a document's text is cut. `page` is NULL where the format has no pages; `position` counts from 0 in each document."""

    chunk_size: Annotated[int, Meta(ge=100, le=1_000_000, description="The most characters of a chunk.")] = 2000
    overlap: Annotated[
        int,
        Meta(ge=0, description="Characters that a chunk repeats of the one before on its page; below half of `chunk_size`."),
    ] = 200

    def __post_init__(self) -> None:
        if self.overlap * 2 >= self.chunk_size:
            raise ValueError(f"overlap is below half of chunk_size ({self.chunk_size}), not {self.overlap}")


_READERS: Mapping[str, Callable[[ObjectFile], Iterator[Paragraph]]] = {
    "pdf": document_formats.pdf_paragraphs,
    "docx": document_formats.docx_paragraphs,
    "html": document_formats.html_paragraphs,
    "htm": document_formats.html_paragraphs,
    "md": document_formats.text_paragraphs,
    "txt": document_formats.text_paragraphs,
}
"""By extension."""


def read(source: ObjectFile, options: DocumentOptions, _columns: Columns) -> Iterator[pa.RecordBatch]:
    """Raises:
    InvalidArgument: the document cannot be read.
    Unsupported: it is of no format that is known, encrypted, or unpacks to too much.
    """
    schema = schema_of(_COLUMNS)
    name = source.key.encode(errors="replace").decode()  # a disk may have others than Unicode
    found = enumerate(chunks(_reader(source)(source), options.chunk_size, options.overlap))
    while part := list(islice(found, _ROWS)):
        arrays: list[pa.Array[Any]] = [
            pa.array([name] * len(part), pa.string()),
            pa.array([chunk.page for _, chunk in part], pa.int32()),
            pa.array([position for position, _ in part], pa.int32()),
            pa.array([chunk.text for _, chunk in part], pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _reader(source: ObjectFile) -> Callable[[ObjectFile], Iterator[Paragraph]]:
    extension = source.key.rpartition(".")[2].lower()
    found = _READERS.get(extension)
    if found is None:
        raise Unsupported(f"the name ends in .{extension:.20}, and documents are {', '.join(_READERS)}")
    return found


DOCUMENTS: Template[DocumentOptions] = Template(
    "documents", ("pdf", "docx", "html", "md", "txt"), read, DocumentOptions, libraries=(Library("pypdf", "documents"),)
)
