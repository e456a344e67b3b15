"""Objects that are made to harm: each is a reject within its bounds, with the reason, and the object behind it is read."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.ingest.templates.messages import ReadBounds
from lakewarden.ingest.templates.worker import BoundedReads, ObjectRows, ReadJob, ReadRejected
from tests.ingest.templates.files import avro, docx, pdf
from tests.ingest.templates.objects import columns

pytestmark = pytest.mark.slow  # a process for each that is ended; what is large is made when its test runs

_BOUNDS = ReadBounds(memory_bytes=256 << 20, cpu_seconds=2.0, cpu_seconds_per_gib=2.0)

Ranges = Callable[[int, int], bytes]


@pytest.fixture(scope="module")
def reads() -> Iterator[BoundedReads]:
    with BoundedReads(_BOUNDS) as opened:
        yield opened


@pytest.fixture(scope="module")
def short() -> Iterator[BoundedReads]:
    """Of memory."""
    with BoundedReads(replace(_BOUNDS, memory_bytes=64 << 20)) as opened:
        yield opened


def _read(reads: BoundedReads, into: Path, template: str, key: str, data: bytes) -> ObjectRows | ReadRejected:
    return reads.read(ReadJob(template, key, len(data)), lambda start, length: data[start : start + length], into)


def _refused(reads: BoundedReads, into: Path, template: str, key: str, data: bytes) -> str:
    found = _read(reads, into, template, key, data)
    assert isinstance(found, ReadRejected)
    assert found.reason
    assert _read(reads, into, "csv", "next.csv", b"a\n1\n") == ObjectRows(1, 8, columns(a="BIGINT"))
    return f"{found.code}: {found.reason}"


def _bomb(size: int, unit: bytes = b" ") -> bytes:
    """Some mebibytes, packed by deflate, in little memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(unit * (1 << 20)) for _ in range(size)) + packer.flush()


def _docx_bomb(megabytes: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as main:
        main.write(b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>')
        for _ in range(megabytes):
            main.write(b" " * (1 << 20))
    return made.getvalue()


_TENFOLD = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, 9))
_ENTITIES = f"<!DOCTYPE x [<!ENTITY e0 '{'x' * 1000}'>{_TENFOLD}]>"


@pytest.mark.parametrize(
    ("key", "data", "why"),
    [
        pytest.param("zip.docx", lambda: _docx_bomb(100), "unpacks to more than the 67,108,864 bytes", id="a zip bomb in a docx"),
        pytest.param("xml.docx", lambda: docx("<w:p>&e8;</w:p>", head=_ENTITIES), "has a DTD", id="an entity bomb"),
        pytest.param("deep.docx", lambda: docx("<w:p>" * 100_000), "nested more than 1000 deep", id="a deep docx"),
        pytest.param("loop.pdf", lambda: pdf(["a"], kids="2 0 R"), "not a PDF|behind page", id="a tree of pages in a circle"),
        pytest.param(
            "deep.pdf", lambda: pdf(["a"], extra=[b"[" * 200_000], kids="4 0 R"), "not a PDF|behind page", id="a deep pdf"
        ),
        pytest.param("many.pdf", lambda: pdf(["a"], kids="5 0 R " * 3_000_000), "array element", id="a page three million times"),
        pytest.param("deep.html", lambda: b"<div>" * 10 + b"<!--" * 3_000_000, "more than|no rows", id="comments without an end"),
    ],
)
def test_documents(reads: BoundedReads, tmp_path: Path, key: str, data: Callable[[], bytes], why: str) -> None:
    found = _refused(reads, tmp_path / "rows", "documents", key, data())
    assert re.search(why, found), found


def test_a_pdf_whose_stream_unpacks_to_gigabytes(reads: BoundedReads, tmp_path: Path) -> None:
    packed = zlib.compress(b" " * (64 << 20), 9)
    packed = zlib.compress(packed, 9)
    stream = b"<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n%b\nendstream" % (len(packed), packed)
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents [%b] >>" % (b"4 0 R " * 100)
    found = _read(reads, tmp_path / "rows", "documents", "a.pdf", pdf([""], extra=[stream, page], kids="5 0 R"))
    assert found == ObjectRows(0, 0, {}) or isinstance(found, ReadRejected)


def _gigabyte(start: int, length: int) -> bytes:
    """A CSV with one field of a gigabyte."""
    return (b"a\n1\n" if start == 0 else b"").ljust(length, b"x")


def test_a_csv_with_one_field_of_a_gigabyte_is_not_read_to_its_end(reads: BoundedReads, tmp_path: Path) -> None:
    fetched = []

    def ranges(start: int, length: int) -> bytes:
        fetched.append(length)
        return _gigabyte(start, length)

    found = reads.read(ReadJob("csv", "a.csv", 1 << 30), ranges, tmp_path / "rows")
    assert found == ReadRejected("INVALID_ARGUMENT", "a record from line 3 on has more than 16,777,216 bytes")
    assert sum(fetched) <= 64 << 20


@pytest.mark.parametrize(
    ("template", "data", "why"),
    [
        ("csv", lambda: _bomb(200, b"x"), "more than the 16,777,216 bytes"),
        ("csv", lambda: gzip.compress(b"a\n") + _bomb(400, b"x"), "a record from line 2 on has more than 16,777,216 bytes"),
        ("json", lambda: _bomb(200, b"["), "object 1 is expected"),
        ("json", lambda: b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        ("json", lambda: b'{"a": ' + b'{"a":' * 100_000, "nested too deeply"),
        ("json", lambda: b'{"a": "' + b"x" * (40 << 20), "more than the 16,777,216 bytes"),
        ("json", lambda: b"{}" * 10 + b'{"a": 1' + b"0" * 100_000 + b"}", "object 11: Exceeds the limit"),
        ("json", lambda: json.dumps([{f"{n}-{k}": k for k in range(100)} for n in range(100)]).encode(), "columns"),
    ],
    ids=range(8),
)
def test_text(reads: BoundedReads, tmp_path: Path, template: str, data: Callable[[], bytes], why: str) -> None:
    assert why in _refused(reads, tmp_path / "rows", template, "a", data())


def test_a_parquet_file_with_a_page_that_unpacks_to_more_than_there_may_be(short: BoundedReads, tmp_path: Path) -> None:
    made = io.BytesIO()
    rows = pa.table({"v": ["x" * (8 << 20)] * 12})
    pq.write_table(rows, made, compression="zstd", use_dictionary=False, data_page_size=1 << 30, write_statistics=False)
    assert len(made.getvalue()) < 1 << 20
    assert "bytes of memory" in _refused(short, tmp_path / "rows", "parquet", "a", made.getvalue())


def test_a_parquet_file_whose_metadata_lies(reads: BoundedReads, tmp_path: Path) -> None:
    made = io.BytesIO()
    pq.write_table(pa.table({"v": range(1000)}), made, compression="none", use_dictionary=False)
    good = made.getvalue()
    assert isinstance(_read(reads, tmp_path / "rows", "parquet", "a", good), ObjectRows)
    size = int.from_bytes(good[-8:-4], "little")
    longer = good[:-8] + (1 << 31).to_bytes(4, "little") + b"PAR1"
    many = good.replace(b"\x16\xd0\x0f", b"\x16\xfe\x7f")  # 1,000 rows are called 8,191
    assert many != good
    for data in (longer, many, good[: len(good) - size - 8] + good[-size - 8 :][::-1] + b"PAR1"):
        assert "not a Parquet file" in _refused(reads, tmp_path / "rows", "parquet", "a", data)


def test_an_avro_file_with_a_block_whose_length_lies(reads: BoundedReads, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": "bytes"}]}
    good = avro(schema, [{"v": b"abc"}], "null")
    body = b"\x02\x08\x06abc"  # one record, four bytes: a length and three
    assert body in good
    lies = [
        b"\x02\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x06abc",  # the block's length
        b"\x02\x80\x80\x80\x80\x04\x06abc",
        b"\x02\x08\xfe\xff\xff\xff\x0fabc",  # the value's
        b"\xfe\xff\xff\xff\x7f\x08\x06abc",  # the number of records
    ]
    for lie in lies:
        _refused(reads, tmp_path / "rows", "avro", "a", good.replace(body, lie))


def test_an_avro_block_that_unpacks_to_more_than_there_may_be(short: BoundedReads, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": "bytes"}]}
    empty = avro(schema, [], "deflate")
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = b"".join(
        [packer.compress(_varint(100 << 20)), *(packer.compress(bytes(1 << 20)) for _ in range(100)), packer.flush()]
    )
    bomb = empty + _varint(1) + _varint(len(packed)) + packed + empty[-16:]
    assert "bytes of memory" in _refused(short, tmp_path / "rows", "avro", "a", bomb)


def _varint(number: int) -> bytes:
    left, made = number << 1, bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


@pytest.mark.parametrize("key", ["../../a.csv", "a\x00\x1b[2J\r\n.csv", "k" * 1000 + ".csv", "a\udcff.csv"])
def test_a_strange_name_is_only_a_name(reads: BoundedReads, tmp_path: Path, key: str) -> None:
    assert isinstance(_read(reads, tmp_path / "rows", "csv", key, b"a\n1\n"), ObjectRows)
    text = key.removesuffix(".csv") + ".txt"
    assert isinstance(_read(reads, tmp_path / "rows", "documents", text, b"a"), ObjectRows)
