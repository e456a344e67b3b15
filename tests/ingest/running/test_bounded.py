"""Each object is read in a process within its bounds; what ends that process rejects the object, and stops no other."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.errors import Conflict, InvalidArgument, NotFound, StorageUnavailable
from lakewarden.ingest.templates.messages import ReadBounds
from lakewarden.ingest.templates.worker import BoundedReads, ObjectRows, ReadJob, ReadRejected
from tests.ingest.running.written import rows_in
from tests.ingest.templates.objects import columns
from tests.ingest.templates.packages import install

pytestmark = pytest.mark.slow  # each starts processes

_BOUNDS = ReadBounds(
    memory_bytes=200 << 20, cpu_seconds=1.0, wall_seconds=60.0, rows=10_000, output_bytes=1 << 20, value_bytes=4096, columns=100
)

Reading = Callable[..., ObjectRows | ReadRejected]


@pytest.fixture(scope="module", autouse=True)
def _strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        install(patch, tmp_path_factory.mktemp("package"), {"strange": "tests.ingest.running.strange:STRANGE"})
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
        yield


@pytest.fixture(scope="module")
def reads() -> Iterator[BoundedReads]:
    with BoundedReads(_BOUNDS) as opened:
        yield opened


def _read(
    reads: BoundedReads, into: Path, data: bytes, template: str = "strange", key: str = "a", **more: object
) -> ObjectRows | ReadRejected:
    job = ReadJob(template, key, len(data), options=more)
    return reads.read(job, lambda start, length: data[start : start + length], into)


def _pids(reads: BoundedReads) -> list[int]:
    return [each._process.pid for each in reads._pool._idle]


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("memory", "more than the 209,715,200 bytes of memory"),
        ("small memory", "more than the 209,715,200 bytes of memory"),
        ("spin", "more than 1 seconds of processor time"),
        ("crash", "ended the process that read it, with status -11"),
        ("exit", "ended the process that read it, with status 1"),
        ("raise", r"failed: ZeroDivisionError\('a\\nb\\x1b\[31mccc.*…$"),
        ("endless", "more than the 10,000 rows"),
        ("again", "over and over"),
        ("changes", "rows from 2 on have other columns"),
        ("broken text", "not valid"),
        ("long", "column 'v' has a value of 5,000 bytes, and 4,096 are allowed"),
        ("columns", "101 columns, and 100 are allowed"),
    ],
)
def test_what_passes_a_bound_is_a_reject_and_the_next_object_is_read(
    reads: BoundedReads, tmp_path: Path, does: str, why: str
) -> None:
    found = _read(reads, tmp_path / "rows", does.encode())
    assert isinstance(found, ReadRejected)
    assert found.code in {"UNSUPPORTED", "INVALID_ARGUMENT"}
    assert re.search(why, found.reason), found.reason
    assert found.reason.isprintable()
    assert len(found.reason) <= 1001
    assert _read(reads, tmp_path / "rows", b"fine") == ObjectRows(1, 8, columns(v="TEXT"))
    assert rows_in(tmp_path / "rows")["v"].to_pylist() == ["fine"]


def test_one_that_sleeps_is_ended_after_the_time_that_it_may_take(tmp_path: Path) -> None:
    with BoundedReads(replace(_BOUNDS, wall_seconds=0.2, wall_seconds_per_gib=0.0)) as reads:
        found = _read(reads, tmp_path / "rows", b"sleep")
    assert found == ReadRejected("UNSUPPORTED", "reading the object takes longer than 0.2 seconds")


def test_many_objects_are_read_by_one_process_until_it_keeps_too_much(reads: BoundedReads, tmp_path: Path) -> None:
    _read(reads, tmp_path / "rows", b"first")
    pids = _pids(reads)
    for number in range(50):
        assert isinstance(_read(reads, tmp_path / "rows", b"%d" % number), ObjectRows)
    assert isinstance(_read(reads, tmp_path / "rows", b"raise"), ReadRejected)
    assert _pids(reads) == pids
    assert isinstance(_read(reads, tmp_path / "rows", b"keeps"), ObjectRows)
    assert _pids(reads) == []


def test_it_has_no_credentials_and_no_name_is_a_path(reads: BoundedReads, tmp_path: Path) -> None:
    for key in ("../../etc/passwd", "a\x00\x1b[2J\n", "k" * 1000, "half \ud800", ""):
        assert isinstance(_read(reads, tmp_path / "rows", b"environment", key=key), ObjectRows)
        rows = [str(each) for each in rows_in(tmp_path / "rows")["v"].to_pylist()]
        assert any(each.startswith("PYTHONPATH=") for each in rows)
        assert not [each for each in rows if "hush" in each or "AWS" in each]
    assert [each.name for each in tmp_path.iterdir()] == ["rows"]


def test_an_object_without_rows_says_nothing_of_columns(reads: BoundedReads, tmp_path: Path) -> None:
    assert _read(reads, tmp_path / "rows", b"nothing") == ObjectRows(0, 0, {})
    assert _read(reads, tmp_path / "rows", b"a,b\n", template="csv") == ObjectRows(0, 0, {})


def test_an_error_of_the_store_is_no_reject(reads: BoundedReads, tmp_path: Path) -> None:
    def changed(_start: int, _length: int) -> bytes:
        raise Conflict("the object is another one now")

    def broken(_start: int, _length: int) -> bytes:
        raise ConnectionResetError("gone")

    with pytest.raises(Conflict, match="another one now"):
        reads.read(ReadJob("csv", "a", 10), changed, tmp_path / "rows")
    with pytest.raises(StorageUnavailable, match="gone"):
        reads.read(ReadJob("csv", "a", 10), broken, tmp_path / "rows")
    assert isinstance(_read(reads, tmp_path / "rows", b"fine"), ObjectRows)


def test_a_wrong_template_or_option_is_no_reject(reads: BoundedReads, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no template 'cvs'"):
        _read(reads, tmp_path / "rows", b"a", template="cvs")
    with pytest.raises(InvalidArgument, match="no option 'delimitr'; its options are"):
        _read(reads, tmp_path / "rows", b"a", template="csv", delimitr=";")


def test_threads_read_at_the_same_time_in_as_many_processes_as_there_may_be(tmp_path: Path) -> None:
    with BoundedReads(_BOUNDS, workers=2) as reads, ThreadPoolExecutor(4) as threads:

        def read(number: int) -> object:
            into = tmp_path / str(number)
            found = _read(reads, into, b"crash" if number % 10 == 3 else b"%d" % number)
            return rows_in(into)["v"][0].as_py() if isinstance(found, ObjectRows) else None

        assert list(threads.map(read, range(40))) == [None if n % 10 == 3 else str(n) for n in range(40)]
        assert 1 <= len(_pids(reads)) <= 2


def test_a_forked_process_starts_workers_of_its_own(reads: BoundedReads, tmp_path: Path) -> None:
    """As Spark's Python workers are."""
    _read(reads, tmp_path / "rows", b"here")
    pids = _pids(reads)
    forked = os.fork()
    if not forked:
        found = _read(reads, tmp_path / "theirs", b"there")
        os._exit(0 if isinstance(found, ObjectRows) and not set(_pids(reads)) & set(pids) else 1)
    assert os.waitpid(forked, 0)[1] == 0
    assert isinstance(_read(reads, tmp_path / "rows", b"here"), ObjectRows)
    assert _pids(reads) == pids
