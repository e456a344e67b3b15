"""Small files of each format, made by hand: good ones, that tests break."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

import fastavro

_NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def pdf(pages: Sequence[str], *, kids: str | None = None, extra: Sequence[bytes] = ()) -> bytes:
    """A line of text a page. `kids`: what the tree of pages names instead of them; `extra`: further objects, from number 4 on."""
    first = 4 + len(extra)
    numbers = range(first, first + 2 * len(pages), 2)
    named = " ".join(f"{number} 0 R" for number in numbers) if kids is None else kids
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{named}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *extra,
    ]
    for number, text in zip(numbers, pages, strict=True):
        drawn = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {number + 1} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>".encode(),
            b"<< /Length %d >>\nstream\n%b\nendstream" % (len(drawn), drawn),
        ]
    return _numbered(objects)


def _numbered(objects: Sequence[bytes]) -> bytes:
    made, places = bytearray(b"%PDF-1.7\n"), []
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    begin, size = len(made), len(objects) + 1
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, begin)
    return bytes(made) + b"xref\n0 %d\n0000000000 65535 f \n%b" % (size, table) + end


def docx(body: str, *, head: str = "") -> bytes:
    """The main part alone, its body as XML."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f'{head}<w:document xmlns:w="{_NAMESPACE}"><w:body>{body}</w:body></w:document>')
    return made.getvalue()


def avro(schema: dict[str, Any], rows: Sequence[dict[str, Any]], codec: str = "deflate") -> bytes:
    made = io.BytesIO()
    fastavro.writer(made, schema, rows, codec)
    return made.getvalue()
