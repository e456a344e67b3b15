"""Each kind of object that a warehouse creates only if it is absent, and each answer that a store may give to that.

A life has its first request for each key answered so; docs/reference/answers.md says what comes of it. `LAKEWARDEN_ANSWERS=1`
(`make torture`) lives once for each answer and writes the page; `make test` lives once, each key with another answer.
"""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.errors import LakewardenError, StorageUnavailable
from lakewarden.log.objects import put
from lakewarden.storage import remote
from tests.fixtures.children import exit_status
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, scope_path, strong
from tests.fixtures.life import STEPS, Failed, Life, kind_of
from tests.fixtures.minio import MinioServer
from tests.fixtures.proxy import Fault, Plan, Proxy, Request, proxy_of

pytestmark = pytest.mark.slow

_ALL = bool(os.environ.get("LAKEWARDEN_ANSWERS"))
_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "answers.md"
_ANSWERS: Mapping[Fault, str] = {
    "reset": "dropped before",
    "lost": "dropped after",
    "doubled": "200 twice",
    "repeated": "412 to a repetition",
    "conflict": "409 before",
    "lost-conflict": "409 after",
    "taken": "412 before",
    "lost-taken": "412 after",
    "failed": "500 before",
    "lost-error": "500 after",
    "error": "503 before",
    "lost-slow-down": "503 after",
    "busy": "429",
    "cut-request": "body cut",
}
_DONE = "done"
_HEAD = """# Answers to what is created

<!-- Written by LAKEWARDEN_ANSWERS=1 pytest tests/storage/test_answers.py, and held by it; edit there. -->

Every object of a warehouse that may be there only once is created by a conditional PUT (`If-None-Match: *`). In a life with every
kind of work, a proxy before a real MinIO gave the first request for each of them each of these answers, before the store did
it, or after. `done`: the call said that it was done, one object was stored, and it was ours; after that life `check` was clean,
and each row was there once, for the process that lived it and for one that saw nothing of it. Anything else is the code that the
call ended with, and what the same call said the next time. `cold:` is another storage than the warehouse's own.

[Why](../decisions/0109-a-created-object-has-an-id.md).
"""
_ROWS = {
    "chat.notes": [(1, "row 1"), (2, "row 2"), (9, "again 2")],
    "chat.visits": ["direct"],
    "chat.taken": ["taken"],
    "chat.events": ["an event"],
    "chat.papers": [b"paper"],
}


@dataclass
class FirstTries:
    """The first request that creates a key gets the next of these answers."""

    answers: Sequence[Fault]
    given: list[tuple[str, Fault]] = field(default_factory=list)
    """The kind of each key, and what it got, since this was last emptied."""
    only: str = ""
    slow_seconds: float = 0
    let_go: threading.Event = field(default_factory=threading.Event)
    _count: int = 0
    _seen: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, request: Request) -> Fault | None:
        if request.kind != "CREATE" or not re.search(self.only, request.key):
            return None
        with self._lock:
            if request.key in self._seen:
                return None
            self._seen.add(request.key)
            answer = self.answers[self._count % len(self.answers)]
            self._count += 1
            self.given.append((kind_of(request.key), answer))
            return answer


Found = dict[tuple[str, Fault], set[str]]


@pytest.fixture(scope="module")
def proxy(minio: MinioServer) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint) as proxy, pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def _lived(proxy: Proxy, answers: Sequence[Fault]) -> Found:
    """What the call said, for each kind of object and answer; and what its repetition said, where it failed."""
    tries, found = FirstTries(answers), defaultdict[tuple[str, Fault], set[str]](set)
    uri = f"s3://lake/{random_id()}"
    with proxy.under(tries):
        life, said = _begun(uri)
        for step in ("begin", *STEPS):
            outcome = said if step == "begin" else _said(life, step)
            for kind, answer in tries.given:
                found[kind, answer].add(outcome)
            tries.given.clear()
    with life.lake as lake:
        assert life.rows() == _ROWS, answers
        assert [one for one in lake.check() if not one.passed] == [], answers
    with Life.begin(uri).lake as again:  # for a process that has seen nothing of it
        assert Life(uri, again).rows() == _ROWS, answers
    return found


def _begun(uri: str) -> tuple[Life, str]:
    try:
        return Life.begin(uri), _DONE
    except LakewardenError as error:
        return Life.begin(uri), f"{error.code}, then {_DONE}"


def _said(life: Life, step: str) -> str:
    try:
        STEPS[step](life)
    except (LakewardenError, Failed) as error:
        code = error.code if isinstance(error, LakewardenError) else str(error)
        STEPS[step](life)
        return f"{code}, then {_DONE}"
    return _DONE


def _page(found: Found) -> str:
    kinds = sorted({kind for kind, _ in found})
    head = ["what is created", *_ANSWERS.values()]
    lines = [_HEAD, f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    for kind in kinds:
        cells = ["; ".join(sorted(found.get((kind, answer), {"–"}))) for answer in _ANSWERS]
        lines.append(f"| `{kind}` | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cells() -> Found:
    """The page, read again."""
    rows = [line for line in _PAGE.read_text().splitlines() if line.startswith("| `")]
    found: Found = {}
    for kind, *cells in ([cell.strip() for cell in row.strip("|").split("|")] for row in rows):
        for answer, cell in zip(_ANSWERS, cells, strict=True):
            found[kind.strip("`"), answer] = set(cell.split("; "))
    return found


@pytest.mark.minio
def test_what_comes_of_each_answer_is_what_the_page_says(proxy: Proxy) -> None:
    answers = list(_ANSWERS)
    if _ALL:
        found: Found = defaultdict(set)
        for answer in answers:
            for case, said in _lived(proxy, [answer]).items():
                found[case] |= said
        _PAGE.write_text(_page(found))
        assert {case: said for case, said in found.items() if said != {_DONE}} == {}
        return
    found, page = _lived(proxy, answers), _cells()
    assert {kind for kind, _ in found} == {kind for kind, _ in page}
    assert {case: said for case, said in found.items() if said != page[case]} == {}


@pytest.mark.minio
@pytest.mark.parametrize("answer", ["conflict"])
def test_a_write_that_is_never_decided_says_so_and_is_written_by_the_next_call(
    proxy: Proxy, answer: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "RETRIES", 1)
    monkeypatch.setattr(put, "_WAITS", (0.0, 0.02, 0.1))
    with Lakehouse.open(f"s3://lake/{random_id()}") as lake:
        table = make_notes(lake)
        table.write(notes({1: "before"}), user="ann")
        with (
            proxy.under(Plan(answer, only="/segments/", every=1)),
            pytest.raises(StorageUnavailable, match="the rows may or may not have been taken at position 1"),
        ):
            table.write(notes({2: "open"}), user="ann")
        assert strong(table, "ann") == {1: "before"}
        table.write(notes({2: "again"}), user="bob")
        table.write(notes({3: "next"}), user="ann")
        assert strong(table, "ann") == {1: "before", 3: "next"}
        assert [report.fault for report in lake.flush()] == [None, None]
        assert [one for one in lake.check() if not one.passed] == []


@pytest.mark.minio
def test_a_warehouse_whose_founding_was_not_decided_is_founded_by_the_next_call(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "RETRIES", 1)
    for only in ("/catalog/", ".lakewarden-owner", "warehouse.json", "/probed/"):
        uri = f"s3://lake/{random_id()}"
        with proxy.under(Plan("conflict", only=only, every=1)), pytest.raises(StorageUnavailable):
            Lakehouse.open(uri)
        with Lakehouse.open(uri) as lake:
            make_notes(lake).write(notes({1: "a row"}), user="ann")
            assert [report.fault for report in lake.flush()] == [None]


def _flush_theirs(uri: str, past_the_proxy: str) -> None:
    """Makes a commit for each answer to a table with a property of another program, which deltalake writes. It holds Python's
    lock meanwhile, so the proxy is in another process."""
    with Lakehouse.open(uri) as lake:
        table = make_notes(lake)
        for number in range(len(_ANSWERS) + 1):
            table.write(notes({number: f"row {number}"}), user="ann")
            assert [report.fault for report in lake.flush()] == [None], number
            if number == 0:
                theirs = DeltaTable(str(scope_path(lake, "ann")), storage_options={"aws_endpoint_url_s3": past_the_proxy})
                theirs.alter.set_table_properties({"their.owner": "another"}, raise_if_not_exists=False)


@pytest.mark.minio
def test_a_commit_that_deltalake_writes_is_there_once_whatever_the_answer_is(minio: MinioServer, proxy: Proxy) -> None:
    uri, tries = f"s3://lake/{random_id()}", FirstTries([*_ANSWERS], only=r"/ann/_delta_log/\d+\.json$")
    with proxy.under(tries):
        assert exit_status(_flush_theirs, uri, minio.endpoint) == 0
    assert {answer for _, answer in tries.given} == set(_ANSWERS)
    with Lakehouse.open(uri) as lake:
        assert eventual(lake.table(NOTES), "ann") == {number: f"row {number}" for number in range(len(_ANSWERS) + 1)}
        versions = [entry.version for entry in lake.table(NOTES).history(user="ann", limit=None)]
        assert sorted(versions) == [*range(len(_ANSWERS) + 2)], "one for each flush, and that of the property"
