"""Reads the text of a PDF, page by page."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.ingest.templates.documents.chunks import PIECE, Paragraph
from lakewarden.ingest.templates.object_file import ObjectFile

_BROKEN = (ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What the library raises where an object of the file is of another kind than it should be."""


def paragraphs(source: ObjectFile) -> Iterator[Paragraph]:
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
            text = page.extract_text()
            yield from (Paragraph(number, text[start : start + PIECE]) for start in range(0, len(text), PIECE))
    except (FileNotDecryptedError, DependencyError) as error:
        raise Unsupported("the PDF is encrypted") from error
    except (PyPdfError, *_BROKEN) as error:
        place = f"behind page {number}" if number else "not a PDF that can be read"
        raise InvalidArgument(f"{place}: {str(error) or repr(error):.300}") from error
