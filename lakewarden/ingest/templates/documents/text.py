"""Reads paragraphs of text and Markdown in UTF-8. Markdown stays as it is written."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.documents.chunks import PIECE, Paragraph
from lakewarden.ingest.templates.object_file import ObjectFile

_BLANK = re.compile(r"\n[ \t\r]*\n")


def paragraphs(source: ObjectFile) -> Iterator[Paragraph]:
    """Raises:
    InvalidArgument: it is not text in UTF-8.
    """
    held = ""
    for text in decoded(source, "utf-8"):
        *whole, held = _BLANK.split(held + text)
        for each in whole:
            yield Paragraph(None, each)
        while len(held) > PIECE:
            yield Paragraph(None, held[:PIECE])
            held = held[PIECE:]
    yield Paragraph(None, held)


def decoded(source: ObjectFile, encoding: str) -> Iterator[str]:
    """The text in pieces, without a byte order mark.

    Raises:
        InvalidArgument: it is not text in this encoding.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
    with source.open() as file:
        while True:
            data = file.read(PIECE)
            try:
                yield decoder.decode(data, not data)
            except UnicodeError as error:
                raise InvalidArgument(f"the object is not text in {encoding}: {error}") from error
            if not data:
                return
