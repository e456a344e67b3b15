"""Reads paragraphs of DOCX: the main part of the archive, unpacked as it is parsed, up to a bound. A DTD is refused."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from typing import NoReturn
from xml.parsers import expat

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.ingest.templates.documents.chunks import PIECE, Paragraph
from lakewarden.ingest.templates.object_file import ObjectFile

XML_BYTES = 64 << 20
"""Of the main part: ten times a book of a thousand pages."""
_DEPTH = 1000
_MAIN = "word/document.xml"
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main "
_BREAKS = {"br": "\n", "cr": "\n", "tab": "\t"}
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, ValueError)
"""What the library raises where an archive is not what it should be, or encrypted."""


def paragraphs(source: ObjectFile) -> Iterator[Paragraph]:
    """Raises:
    InvalidArgument: it is no DOCX, or its XML is broken or has a DTD.
    Unsupported: its text unpacks to too much, or is nested too deeply.
    """
    parser = _Parser()
    left = min(source.unpacked_bytes, XML_BYTES)
    for data in _unpacked(source):
        left -= len(data)
        if left < 0:
            raise Unsupported(f"the document's text unpacks to more than the {XML_BYTES:,} bytes that are allowed")
        parser.feed(data)
        yield from parser.taken()
    parser.close()
    yield from parser.taken()


def _unpacked(source: ObjectFile) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(source.open()) as archive, archive.open(_MAIN) as main:
            while data := main.read(PIECE):
                yield data
    except _BROKEN as error:
        raise InvalidArgument(f"not a DOCX that can be read: {error}") from error


class _Parser:
    """Gathers the text of each paragraph, and counts pages where the program that wrote it noted their breaks."""

    def __init__(self) -> None:
        self._expat = expat.ParserCreate(namespace_separator=" ")
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._character_data
        self._expat.StartDoctypeDeclHandler = _refuse
        self._depth = 0
        self._page = 1
        self._blank = True
        """Whether the page has no text so far."""
        self._in_text = False
        self._text: list[str] = []
        self._length = 0
        self._done: list[Paragraph] = []

    def taken(self) -> Iterator[Paragraph]:
        done, self._done = self._done, []
        yield from done

    def feed(self, data: bytes) -> None:
        self._parse(data, last=False)

    def close(self) -> None:
        self._parse(b"", last=True)

    def _parse(self, data: bytes, *, last: bool) -> None:
        try:
            self._expat.Parse(data, last)
        except expat.ExpatError as error:
            raise InvalidArgument(f"the document's XML is broken: {error}") from error

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise Unsupported(f"the document's XML is nested more than {_DEPTH} deep")
        space, _, name = tag.rpartition(" ")
        if f"{space} " not in (_W, _STRICT):
            return
        self._in_text = name == "t"
        if name == "lastRenderedPageBreak" or (name == "br" and attributes.get(f"{space} type") == "page"):
            self._turn()
        elif name in _BREAKS:
            self._text.append(_BREAKS[name])

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._in_text = False
        if tag in (f"{_W}p", f"{_STRICT}p"):
            self._paragraph()

    def _character_data(self, text: str) -> None:
        if self._in_text:
            self._text.append(text)
            self._blank = False
            self._length += len(text)
            if self._length > PIECE:
                self._paragraph()

    def _turn(self) -> None:
        """Begins a page, unless one was begun just before: both kinds of break often stand together."""
        self._paragraph()
        if not self._blank:
            self._page += 1
            self._blank = True

    def _paragraph(self) -> None:
        text = "".join(self._text)
        self._text, self._length = [], 0
        self._done += [Paragraph(self._page, text[start : start + PIECE]) for start in range(0, len(text), PIECE)]


def _refuse(name: str, *_: object) -> NoReturn:
    raise InvalidArgument(f"the document's XML has a DTD ({name!r:.40}), which no program for texts writes")
