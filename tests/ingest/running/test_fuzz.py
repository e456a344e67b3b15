"""Good files with a few changed bytes: rows that can be read, or a reject; never an error of the process that asked."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.ingest.templates.messages import ReadBounds
from lakewarden.ingest.templates.worker import BoundedReads, ObjectRows, ReadJob, ReadRejected
from tests.fixtures.examples import examples
from tests.ingest.running.written import rows_in
from tests.ingest.templates.files import avro, docx, pdf

pytestmark = pytest.mark.slow  # many objects for each template

_ROWS = [{"i": n, "f": n / 2, "s": f"text {n}", "d": "2026-11-22", "n": {"x": [n]}} for n in range(20)]
_SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "i", "type": ["null", "long"]},
        {"name": "s", "type": "string"},
        {"name": "n", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
    ],
}
_RECORDS = [{key: row[key] for key in "isn"} for row in _ROWS]


def _parquet(compression: Literal["none", "snappy"]) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(_ROWS), made, compression=compression, row_group_size=8)
    return made.getvalue()


_CSV = b"i,f,s,d\n" + b"".join(b'%d,%d.5,"te""xt %d",2026-11-22\n' % (n, n, n) for n in range(20))
_GOOD: dict[str, tuple[str, bytes]] = {
    "a.csv": ("csv", _CSV),
    "a.csv.gz": ("csv", gzip.compress(_CSV)),
    "a.jsonl": ("json", "\n".join(map(json.dumps, _ROWS)).encode()),
    "a.parquet": ("parquet", _parquet("none")),
    "b.parquet": ("parquet", _parquet("snappy")),
    "a.avro": ("avro", avro(_SCHEMA, _RECORDS, "null")),
    "b.avro": ("avro", avro(_SCHEMA, _RECORDS)),
    "a.pdf": ("documents", pdf(["One page.", "Two pages."])),
    "a.docx": ("documents", docx("<w:p><w:r><w:t>One</w:t><w:br/><w:t>Two</w:t></w:r></w:p>" * 5)),
    "a.html": ("documents", b"<!doctype html><title>T</title><p>One <b>two</b>&amp;<script>x</script><ul><li>a<li>b</ul>"),
    "a.md": ("documents", "# One\n\nTwo ä\n\n* three\n".encode()),
}

_PUT = st.one_of(st.binary(max_size=4), st.sampled_from([b"\xff" * 8, b"\x80" * 4, b"\0" * 8, b'"', b"{", b"[" * 50, b"<" * 9]))
_CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 8), _PUT), min_size=1, max_size=6)
"""Where, how many bytes go, and what comes in their place."""


def _changed(data: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for place, gone, put in changes:
        at = int(place * (len(data) + 1))
        data = data[:at] + put + data[at + gone :]
    return data


@pytest.fixture(scope="module")
def reads() -> Iterator[BoundedReads]:
    with BoundedReads(ReadBounds(memory_bytes=256 << 20, cpu_seconds=5.0)) as opened:
        yield opened


def _read(reads: BoundedReads, into: Path, key: str, data: bytes) -> ObjectRows | ReadRejected:
    return reads.read(ReadJob(_GOOD[key][0], key, len(data)), lambda start, length: data[start : start + length], into)


@pytest.mark.parametrize("key", _GOOD)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=_CHANGES, end=st.one_of(st.none(), st.floats(0, 1)))
def test_a_changed_file_is_rows_or_a_reject(
    reads: BoundedReads, tmp_path: Path, key: str, changes: list[tuple[float, int, bytes]], end: float | None
) -> None:
    data = _changed(_GOOD[key][1], changes)
    found = _read(reads, tmp_path / "rows", key, data if end is None else data[: int(end * len(data))])
    if isinstance(found, ReadRejected):
        assert found.reason
    elif found.rows:
        rows = rows_in(tmp_path / "rows")
        rows.validate(full=True)
        assert rows.num_rows == found.rows
        assert [(name, each.arrow) for name, each in found.columns.items()] == [(each.name, each.type) for each in rows.schema]


@pytest.mark.parametrize("key", _GOOD)
def test_the_files_that_are_changed_are_good(reads: BoundedReads, tmp_path: Path, key: str) -> None:
    found = _read(reads, tmp_path / "rows", key, _GOOD[key][1])
    assert isinstance(found, ObjectRows)
    assert found.rows
