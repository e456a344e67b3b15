"""Reads paragraphs of HTML: the text that a browser would show. The standard library's parser knows no entities but HTML's."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from html.parser import HTMLParser

from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.documents.chunks import PIECE, Paragraph
from lakewarden.ingest.templates.documents.text import decoded
from lakewarden.ingest.templates.object_file import ObjectFile

_DECLARED = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_DECLARED_BYTES = 1024
_UNSEEN = frozenset({"script", "style", "template", "noscript", "svg", "math", "iframe", "object"})
_BLOCK_TAGS = """
    address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure footer form h1
    h2 h3 h4 h5 h6 head header hr html legend li main menu nav ol option p pre section select summary table tbody td textarea
    tfoot th thead title tr ul
"""
_BLOCKS = frozenset(_BLOCK_TAGS.split())


def paragraphs(source: ObjectFile) -> Iterator[Paragraph]:
    """Raises:
    InvalidArgument: its text is not in the encoding that it declares, or UTF-8.
    """
    parser = _Parser()
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
        raise InvalidArgument(f"the document declares {name!r}, which is no encoding of text")
    return found.name


class _Parser(HTMLParser):
    """Gathers text up to each tag that begins or ends a block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._unseen = 0
        self._text: list[str] = []
        self._done: list[str] = []

    def taken(self) -> Iterator[Paragraph]:
        done, self._done = self._done, []
        for each in done:
            yield Paragraph(None, each)

    def end(self) -> None:
        """Ends a paragraph."""
        text = " ".join("".join(self._text).split())
        self._text = []
        self._done += [text[start : start + PIECE] for start in range(0, len(text), PIECE)]

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
