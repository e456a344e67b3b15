"""What the template `documents` reads of each format, how it cuts it, and what it refuses."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from lakewarden.errors import LakewardenError
from lakewarden.ingest.templates.document_formats import Paragraph, chunks
from lakewarden.ingest.templates.documents import DOCUMENTS
from tests.ingest.templates.files import docx, pdf
from tests.ingest.templates.objects import object_of, read, types_of


def _texts(data: bytes, key: str, **options: int) -> list[tuple[int | None, int, str]]:
    rows = read(DOCUMENTS, object_of(data, key), None, **options).to_pylist()
    assert {row["source"] for row in rows} == {key}
    return [(row["page"], row["position"], row["text"]) for row in rows]


def test_a_pdf_has_pages() -> None:
    rows = read(DOCUMENTS, object_of(pdf(["One.", "Two."]), "in/A.PDF"))
    assert types_of(rows) == {"source": "TEXT", "page": "INT", "position": "INT", "text": "TEXT"}
    assert _texts(pdf(["One.", "Two."]), "in/A.PDF") == [(1, 0, "One."), (2, 1, "Two.")]


def test_a_docx_has_pages_where_their_breaks_are_noted() -> None:
    body = (
        "<w:p><w:r><w:t>One &amp; </w:t></w:r><w:r><w:t>a half</w:t><w:tab/><w:t>x</w:t></w:r></w:p>"
        "<w:p><w:r><w:t>Still</w:t><w:instrText>PAGE</w:instrText></w:r></w:p>"
        '<w:p><w:r><w:br w:type="page"/><w:lastRenderedPageBreak/><w:t>Two</w:t></w:r></w:p>'
    )
    assert _texts(docx(body), "a.docx") == [(1, 0, "One & a half\tx\n\nStill"), (2, 1, "Two")]


def test_html_is_what_a_browser_shows() -> None:
    page = (
        "<!doctype html><html><head><title>T</title><style>p {}</style><script>if (a < b) </script></head>"
        "<body><p>a <b>b</b>\n c&amp;&#228;<p>d<br>e<table><tr><td>f<td>g</table><noscript>no</noscript>"
    )
    assert _texts(page.encode(), "a.html") == [(None, 0, "T\n\na b c&ä\n\nd\n\ne\n\nf\n\ng")]
    declared = '<meta charset="iso-8859-1"><p>ä'.encode("latin-1")
    assert _texts(declared, "a.html") == [(None, 0, "ä")]


def test_text_and_markdown_stay_as_they_are() -> None:
    assert _texts(b"\xef\xbb\xbf# T\n\n* a\n* b\n\n\n\nend\n", "a.md") == [(None, 0, "# T\n\n* a\n* b\n\nend")]
    assert _texts(b"a\0b", "x.y/a.txt") == [(None, 0, "a b")]


def test_a_long_text_is_cut_at_the_end_of_paragraphs_then_sentences_then_words() -> None:
    text = " ".join(["Word word."] * 20).encode()
    cut = _texts(text, "a.txt", chunk_size=100, overlap=0)
    assert [len(each) for _, _, each in cut] == [98, 98, 21]
    assert all(each.endswith(".") for _, _, each in cut)
    both = _texts(b"a" * 70 + b"\n\n" + b"b. " * 20, "a.txt", chunk_size=100, overlap=0)
    assert both[0][2] == "a" * 70


@given(
    st.lists(st.tuples(st.sampled_from([None, 1, 2]), st.text("ab .\n", max_size=300))), st.integers(10, 80), st.integers(0, 4)
)
def test_no_word_is_lost_and_no_chunk_is_too_long(given_: list[tuple[int | None, str]], size: int, overlap: int) -> None:
    paragraphs = [Paragraph(*each) for each in given_]
    found = list(chunks(paragraphs, size, 0))
    assert all(0 < len(each.text) <= size for each in found)
    for page in (None, 1, 2):
        ours = "".join("".join(each.text.split()) for each in found if each.page == page)
        assert ours == "".join("".join(each.text.split()) for each in paragraphs if each.page == page)
    assert all(len(each.text) <= size for each in chunks(paragraphs, size, overlap))


def _encrypted() -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(["One."]))))
    writer.encrypt("secret", algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


@pytest.mark.parametrize(
    ("key", "data", "why"),
    [
        ("a.pdf", b"", "not a PDF"),
        ("a.pdf", b"%PDF-1.7\n", "not a PDF"),
        ("a.pdf", _encrypted(), "the PDF is encrypted"),
        ("a.pdf", pdf(["One."], kids="2 0 R"), "not a PDF|behind page"),
        ("a.docx", b"PK", "not a DOCX"),
        ("a.docx", docx("<w:p>"), "XML is broken"),
        ("a.docx", docx("", head='<!DOCTYPE x [<!ENTITY a "b">]>'), "has a DTD"),
        ("a.docx", docx("<w:p>" * 2000), "nested more than 1000 deep"),
        ("a.html", b'<meta charset="rot13">', "not an encoding of text|unknown"),
        ("a.html", b"<p>\xff", "not text in utf-8"),
        ("a.txt", "a".encode("utf-16"), "not text in utf-8"),
        ("a.xls", b"", r"the name ends in .xls, and documents are pdf, docx"),
    ],
    ids=range(12),
)
def test_what_cannot_be_read_is_refused_with_the_reason(key: str, data: bytes, why: str) -> None:
    with pytest.raises(LakewardenError, match=why):
        read(DOCUMENTS, object_of(data, key))
