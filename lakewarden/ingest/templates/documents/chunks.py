"""Cuts the paragraphs of a document into chunks of text of about one length, page by page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

PIECE = 1 << 16
"""Characters that a paragraph may have; a reader of documents cuts a longer one."""

_ENDS = re.compile(r"\n\s*\n|[.!?…]\s|\n|\s")
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class Paragraph(NamedTuple):
    page: int | None
    text: str


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
