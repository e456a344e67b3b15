"""Paragraphs of documents: of DOCX, HTML, text and Markdown, and PDF; and the chunks of text that they are cut into."""

from __future__ import annotations

import codecs
import logging
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.ingest.templates.object_file import ObjectFile

# Cuts the paragraphs of a document into chunks of text of about one length, page by page.
PIECE = 1 << 16
"""Characters that a paragraph may have; a reader of documents cuts a longer one."""

_ENDS = re.compile(r"\n\s*\n|[.!?…]\s|\n|\s")
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class Paragraph(NamedTuple):
    page: int | None
    text: str


def _cut(page: int | None, text: str) -> list[Paragraph]:
    return [Paragraph(page, text[start : start + PIECE]) for start in range(0, len(text), PIECE)]


def chunks(paragraphs: Iterable[Paragraph], size: int, overlap: int) -> Iterator[Paragraph]:
    """
    Args:
        size: the most characters of a chunk.
        overlap: the characters of a chunk that the next one on its page begins with, about; below half of `size`.
    """
    held, page = "", None
    for paragraph in paragraphs:
        text = _UNFIT.sub(" ", paragraph.text).strip()
        if not text:
            continue
        if held and paragraph.page != page:
            yield Paragraph(page, held)
            held = ""
        page = paragraph.page
        held = f"{held}\n\n{text}" if held else text
        begin = 0
        while len(held) - begin > size:
            end = _end(held, begin, size)
            yield Paragraph(page, held[begin:end].strip())
            begin = end - overlap
        held = held[begin:].strip()
    if held:
        yield Paragraph(page, held)


def _end(text: str, begin: int, size: int) -> int:
    """Behind the last paragraph, else sentence, line or word that ends in the second half of the chunk."""
    middle = begin + size // 2
    best, kind = begin + size, 3
    for found in _ENDS.finditer(text, middle, begin + size):
        of = _kind(found[0])
        if of <= kind:
            best, kind = found.end(), of
    return best


def _kind(end: str) -> int:
    if end.count("\n") > 1:
        return 0
    return 1 if len(end) > 1 else 2 if end == "\n" else 3


XML_BYTES = 64 << 20
"""Of the main part: ten times a book of a thousand pages."""
_DEPTH = 1000
_MAIN = "word/document.xml"
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main "
_BREAKS = {"br": "\n", "cr": "\n", "tab": "\t"}
_BROKEN_DOCX = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, ValueError)
"""What the library raises where an archive is not what it should be, or encrypted."""


def docx_paragraphs(source: ObjectFile) -> Iterator[Paragraph]:
    """Raises:
    InvalidArgument: it is no DOCX, or its XML is broken or has a DTD.
    Unsupported: its text unpacks to too much, or is nested too deeply.
    """
    parser = _DocxParser()
    left = min(source.unpacked_bytes, XML_BYTES)
    for data in _unpacked(source):
        left -= len(data)
        if left < 0:
            raise Unsupported(f"the document's text unpacks to more than the {XML_BYTES:,} bytes that are allowed")
        yield from parser.taken(data)
    yield from parser.taken(b"", last=True)


def _unpacked(source: ObjectFile) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(source.open()) as archive, archive.open(_MAIN) as main:
            while data := main.read(PIECE):
                yield data
    except _BROKEN_DOCX as error:
        raise InvalidArgument(f"not a DOCX that can be read: {error}") from error


class _DocxParser:
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

    def taken(self, data: bytes, *, last: bool = False) -> list[Paragraph]:
        """The paragraphs that end in this part of the XML."""
        try:
            self._expat.Parse(data, last)
        except expat.ExpatError as error:
            raise InvalidArgument(f"the document's XML is broken: {error}") from error
        done, self._done = self._done, []
        return done

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
        self._done += _cut(self._page, text)


def _refuse(name: str, *_: object) -> NoReturn:
    raise InvalidArgument(f"the document's XML has a DTD ({name!r:.40}), which no program for texts writes")


# Reads paragraphs of text and Markdown in UTF-8. Markdown stays as it is written.
_BLANK = re.compile(r"\n[ \t\r]*\n")


def text_paragraphs(source: ObjectFile) -> Iterator[Paragraph]:
    """Raises InvalidArgument: it is not text in UTF-8."""
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


# Reads paragraphs of HTML: the text that a browser would show. The standard library's parser knows no entities but HTML's.
_DECLARED = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_DECLARED_BYTES = 1024
_UNSEEN = frozenset({"script", "style", "template", "noscript", "svg", "math", "iframe", "object"})
_BLOCK_TAGS = """
    address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure footer form h1
    h2 h3 h4 h5 h6 head header hr html legend li main menu nav ol option p pre section select summary table tbody td textarea
    tfoot th thead title tr ul
"""
_BLOCKS = frozenset(_BLOCK_TAGS.split())


def html_paragraphs(source: ObjectFile) -> Iterator[Paragraph]:
    """Raises InvalidArgument: its text is not in the encoding that it declares, or UTF-8."""
    parser = _HtmlParser()
    for text in decoded(source, _encoding(source)):
        parser.feed(text)
        yield from parser.taken()
    parser.close()
    parser.end()
    yield from parser.taken()


def _encoding(source: ObjectFile) -> str:
    with source.open() as file:
        declared = _DECLARED.search(file.read(_DECLARED_BYTES))
    if declared is None:
        return "utf-8"
    name = declared[1].decode()
    try:
        found = codecs.lookup(name)
    except LookupError as error:
        raise InvalidArgument(f"the document declares the encoding {name!r}, which is unknown") from error
    if not found._is_text_encoding:
        raise InvalidArgument(f"the document declares {name!r}, which is not an encoding of text")
    return found.name


class _HtmlParser(HTMLParser):
    """Gathers text up to each tag that begins or ends a block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._unseen = 0
        self._text: list[str] = []
        self._done: list[Paragraph] = []

    def taken(self) -> list[Paragraph]:
        done, self._done = self._done, []
        return done

    def end(self) -> None:
        """Ends a paragraph."""
        text = " ".join("".join(self._text).split())
        self._text = []
        self._done += _cut(None, text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # the parser's method
        if tag in _UNSEEN:
            self._unseen += 1
        elif tag in _BLOCKS:
            self.end()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # the parser's method
        if tag in _BLOCKS:
            self.end()

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN:
            self._unseen = max(self._unseen - 1, 0)
        elif tag in _BLOCKS:
            self.end()

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self._text.append(data)


# Reads the text of a PDF, page by page.
_BROKEN_PDF = (ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What the library raises where an object of the file is of another kind than it should be."""


def pdf_paragraphs(source: ObjectFile) -> Iterator[Paragraph]:
    """Raises:
    InvalidArgument: it is no PDF, or a page of it cannot be read.
    Unsupported: it is encrypted.
    """
    from pypdf import PdfReader  # an extra
    from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError

    logging.getLogger("pypdf").disabled = True  # it reports each oddity of a file, and nobody reads it here
    number = 0
    try:
        for number, page in enumerate(PdfReader(source.open()).pages, 1):
            yield from _cut(number, page.extract_text())
    except (FileNotDecryptedError, DependencyError) as error:
        raise Unsupported("the PDF is encrypted") from error
    except (PyPdfError, *_BROKEN_PDF) as error:
        place = f"behind page {number}" if number else "not a PDF that can be read"
        raise InvalidArgument(f"{place}: {str(error) or repr(error):.300}") from error
