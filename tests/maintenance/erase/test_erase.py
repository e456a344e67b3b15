"""Erasing users: nothing of them is left, everything of the others is, and whatever is planted is found."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.clock import system_clock
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.changes.objects import begin_drop
from lakewarden.catalog.report import ScopeReport
from lakewarden.catalog.state.erasures import Certificate, ErasureRequest
from lakewarden.catalog.state.job_log import JobLog
from lakewarden.errors import BeingErased, Conflict, InvalidArgument, LakewardenError, NotFound
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects.cuts.closing import close_user, open_user
from lakewarden.log.objects.pack import pack_segment
from lakewarden.log.position import Receipt
from lakewarden.log.record import Batch
from lakewarden.log.table_log import LogTerms, TableLog
from lakewarden.log.touches import Touched
from lakewarden.maintenance.erase.run import erase
from lakewarden.tables.client import TableClient
from lakewarden.tables.fanout import in_process
from tests.fixtures.lakes import NOTES, eventual, hot_seqs, lake_fixture, make_notes, notes, scope_path, strong
from tests.fixtures.sleepers import sleeping_flush

pytestmark = pytest.mark.disk  # they look into the directories themselves


YEAR = timedelta(days=365)


class Died(BaseException):
    """The process was killed here."""


lake = lake_fixture()


def run_erase(lake: Lakehouse, user: str, reach: Reach = no_faults, job_id: str = "UC-1") -> Certificate:
    """As the operator does, with fault points."""
    warehouse = lake.warehouse
    jobs = JobLog(warehouse.state, warehouse.clock, warehouse.new_id)
    asked = ErasureRequest(user, (), "a test", deep=False)
    return erase(warehouse, lambda work, items: in_process(work, items, lambda done: None), jobs, asked, job_id, reach=reach)


def dies(step: str) -> Reach:
    def reach(name: str) -> None:
        if name == step:
            raise Died(name)

    return reach


def raw_hits(lake: Lakehouse, needle: str) -> list[str]:
    """A grep of its own over every file of the warehouse."""
    root = Path(lake.warehouse.uri)
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and needle.encode() in path.read_bytes()]


def planted(lake: Lakehouse, user: str, deep: bool = False) -> list[str]:
    return [finding.what for finding in lake.verify_erased(user, deep=deep).findings]


def test_a_user_may_start_anew_beyond_the_old_rows(lake: Lakehouse) -> None:
    table = make_notes(lake)
    table.write(notes({1: "flushed"}), user="ann")
    lake.flush()
    table.write(notes({2: "hot"}), user="ann")
    table.write(notes({1: "kept"}), user="bob")
    last = max(hot_seqs(table, "ann").values())
    certificate = lake.erase("ann")
    assert (certificate.tables[0].hot_rows, certificate.tables[0].files > 0) == (1, True)
    assert strong(table, "ann") == eventual(table, "ann") == {}
    assert table.users() == []
    table.write(notes({1: "anew"}), user="ann")
    assert min(hot_seqs(table, "ann").values()) > last
    lake.flush()
    assert strong(table, "ann") == eventual(table, "ann") == {1: "anew"}
    assert strong(table, "bob") == {1: "kept"}
    assert lake.pending() == []


def test_one_table_of_two(lake: Lakehouse) -> None:
    table = make_notes(lake)
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    other = lake.create_table("chat.other", type="USER", columns=columns, primary_key=["id"])
    for each in (table, other):
        each.write(notes({1: "x"}), user="ann")
    lake.flush()
    lake.erase("ann", [NOTES], deep=True)
    assert (strong(table, "ann"), strong(other, "ann")) == ({}, {1: "x"})
    assert [entry.table for entry in lake.erasures()[0].tables] == [NOTES]


def test_a_closed_user_is_refused_and_others_in_the_same_call_may_try_again(lake: Lakehouse) -> None:
    table = make_notes(lake)
    state, log = lake.warehouse.state, table.table.log_id
    mark = lake.warehouse.erasures.mark("ann")
    close_user(state, log, mark)
    with pytest.raises(BeingErased, match="'ann' is being erased") as refused:
        table.write(notes({1: "x"}), user="ann")
    assert refused.value.code == "CONFLICT"
    with pytest.raises(BeingErased):
        table.write(notes({1: "x"}), user="ann", mode="insert")
    table.write(notes({1: "y"}), user="bob")
    open_user(state, log, mark)
    table.write(notes({1: "z"}), user="ann")
    assert (strong(table, "ann"), strong(table, "bob")) == ({1: "z"}, {1: "y"})


_STEPS = ("begun", "closed", "filled", "cut", "fenced", "forgotten", "removed", "searched", "certified")


@pytest.mark.parametrize("step", [f"erase:{step}" for step in _STEPS])
def test_an_interrupted_erasure_goes_on_where_it_stopped(lake: Lakehouse, step: str) -> None:
    table = make_notes(lake)
    for user in ("ann", "bob"):
        table.write(notes({1: f"cold of {user}"}), user=user)
    lake.flush()
    lake.tag(NOTES, "before", user="ann")
    lake.export("ann", f"{lake.warehouse.uri}/exports/x")
    for user in ("ann", "bob"):
        table.write(notes({2: f"hot of {user}"}), user=user)
    files = sum(path.is_file() for path in scope_path(lake, "ann").rglob("*"))
    jobs = sum(job.parameters.get("user") == "ann" for job in lake.jobs())
    with pytest.raises(Died):
        run_erase(lake, "ann", dies(step))
    if step != "erase:begun":
        with pytest.raises(BeingErased):
            lake.table(NOTES).write(notes({3: "x"}), user="ann")
    with pytest.raises(Conflict, match="other tables"):
        lake.erase("ann", [_second(lake)])
    lake.flush()  # the user too, as long as the rows are in the log
    certificate = run_erase(lake, "ann", job_id="UC-2")
    assert (certificate.result, certificate.erasure) == ("complete", "UC-1")
    found = certificate.tables[0]
    expected = (0, files + 2) if step == "erase:begun" else (1, files)  # flushed: a data file and a commit
    assert (found.table, found.hot_rows, found.files, found.tags) == (NOTES, *expected, 1)
    assert (certificate.exports, certificate.jobs) == (1, jobs)
    assert strong(table, "ann") == {}
    assert raw_hits(lake, "of ann") == []
    assert strong(table, "bob") == {1: "cold of bob", 2: "hot of bob"}
    lake.table(NOTES).write(notes({3: "anew"}), user="ann")
    assert strong(table, "ann") == {3: "anew"}


def _second(lake: Lakehouse) -> str:
    lake.create_table("chat.second", type="USER", columns=[Column("id", "BIGINT")], primary_key=["id"])
    return "chat.second"


def test_streams_pins_and_the_audit_log_are_covered(lake: Lakehouse) -> None:
    table = make_notes(lake)
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    stream = lake.create_table("chat.typing", type="STREAM", columns=columns, options={"TTL_SECONDS": "3600"})
    for user in ("ann-7f3a", "bob"):
        table.write(notes({1: "cold"}), user=user)
        stream.write(notes({1: f"typed by {user}"}), user=user)
    lake.flush()
    table.lease(user="ann-7f3a", seconds=3600)
    table.lease(user="bob", seconds=3600)
    lake.session(user="root", role="system").sql("EXECUTE AS USER 'ann-7f3a' (SELECT * FROM chat.notes)")
    found = planted(lake, "ann-7f3a")
    assert "a reader's pin on the user's scope" in found
    assert "an entry of the audit log that names the user" in found
    assert found.count("rows of the user in the write log") == 2, (
        "the stream's, and the flushed ones that subscribers may ask for"
    )
    certificate = lake.erase("ann-7f3a", deep=True, asked_by="ann-7f3a")
    assert {entry.table: entry.hot_rows for entry in certificate.tables} == {NOTES: 0, "chat.typing": 1}
    assert (certificate.asked_by, certificate.audit) == (certificate.user, 1)
    assert raw_hits(lake, "typed by ann") == []
    assert [hit for hit in raw_hits(lake, "ann-7f3a") if not hit.startswith("data/")] == []
    assert stream.read(user="bob").num_rows == 1
    assert len(list(Path(lake.warehouse.uri, "_lakewarden", "leases").rglob("*/*/*"))) == 1
    stream.write(notes({2: "anew"}), user="ann-7f3a")
    assert stream.read(user="ann-7f3a").column("text").to_pylist() == ["anew"]


def test_a_table_whose_drop_was_interrupted_is_erased_too(lake: Lakehouse) -> None:
    table = make_notes(lake, options={"COMPRESSION": "none"})
    table.write(notes({1: "token-of-ann"}), user="ann")
    lake.flush()
    lake.warehouse.catalog.change(lambda before: begin_drop(before, table.table.name))
    assert lake.erase("ann").result == "complete"
    assert raw_hits(lake, "token-of-ann") == []


@pytest.fixture
def photos(lake: Lakehouse) -> TableClient:
    lake.create_namespace("chat")
    columns = [Column("id", "BIGINT"), Column("photo", "FILE")]
    return lake.create_table("chat.photos", type="USER", columns=columns, primary_key=["id"])


def test_files_go_and_none_is_taken_meanwhile(lake: Lakehouse, photos: TableClient) -> None:
    photos.put_file({"id": 1}, "photo", b"token-of-ann", name="a.txt", user="ann")
    with pytest.raises(Died):
        run_erase(lake, "ann", dies("erase:removed"))
    with pytest.raises(BeingErased):
        photos.put_file({"id": 2}, "photo", b"token-of-ann", name="b.txt", user="ann")
    assert run_erase(lake, "ann", job_id="UC-2").tables[0].files == 1
    assert raw_hits(lake, "token-of-ann") == []
    assert photos.users() == []


def test_a_file_whose_row_is_refused_goes_again(lake: Lakehouse, photos: TableClient) -> None:
    """Its writer looked before the user was closed."""
    mark = lake.warehouse.erasures.mark("ann")

    class Late(TableLog):
        def append(self, batch: Batch, after: int | None = None, keys: Touched | None = None) -> Receipt:
            close_user(lake.warehouse.state, photos.table.log_id, mark)
            return super().append(batch, after, keys)

    warehouse = lake.warehouse
    terms = LogTerms(warehouse.settings.log, warehouse.clock, warehouse.new_id, warehouse.erasures.mark, warehouse.format)
    slow = Late(warehouse.state, photos.table.log_id, terms)
    with pytest.raises(BeingErased):
        replace(photos, log=slow).put_file({"id": 2}, "photo", b"token-of-ann", name="b.txt", user="ann")
    assert raw_hits(lake, "token-of-ann") == []
    assert photos.users() == []


def test_what_a_cut_that_lost_leaves_in_the_log_meanwhile_goes_too(lake: Lakehouse) -> None:
    """Another user's erasure read the log before this one's cut: its objects have this user's rows until it goes on."""
    table = make_notes(lake, options={"COMPRESSION": "none"})
    table.write(notes({1: "token-of-ann"}), user="ann")
    lake.flush()
    history = Path(lake.warehouse.uri) / "_lakewarden" / "log" / table.table.log_id / "history"
    (settled,) = history.iterdir()
    rows = settled.read_bytes()

    def reach(point: str) -> None:
        if point == "erase:removed":
            version = max(int(cut.name) for cut in (history.parent / "cuts").iterdir())
            (history / f"{version:020d}-{'0' * 32}").write_bytes(rows)

    assert run_erase(lake, "ann", reach).result == "complete"
    assert raw_hits(lake, "token-of-ann") == []


@pytest.mark.slow
def test_erasures_of_several_users_at_once_do_not_hinder_each_other(lake: Lakehouse) -> None:
    table = make_notes(lake, options={"COMPRESSION": "none"})
    users = ("ann", "bob", "eve", "joe")
    table.write([{"user": user, "id": 1, "text": f"of {user}"} for user in users], user_column="user")
    lake.flush()
    table.write([{"user": user, "id": 2, "text": f"of {user}"} for user in users], user_column="user")
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lake.erase, users[:3]))
    assert [certificate.result for certificate in made] == ["complete"] * 3
    assert [raw_hits(lake, f"of {user}") for user in users[:3]] == [[], [], []]
    assert strong(table, "joe") == {1: "of joe", 2: "of joe"}
    table.write([{"user": user, "id": 3, "text": "anew"} for user in users], user_column="user")
    assert [strong(table, user) for user in users[:3]] == [{3: "anew"}] * 3


# What slept through it


_PLACES = ["planned", "drain:opened", "drain:read", "after-read", "after-data-file", "after-commit", "after-sync", "after-floors"]


@pytest.mark.parametrize("first", [True, False], ids=["a new scope", "an old scope"])
@pytest.mark.parametrize("place", _PLACES)
def test_a_flush_that_sleeps_through_an_erasure_brings_nothing_back(lake: Lakehouse, place: str, first: bool) -> None:
    table = make_notes(lake, options={"COMPRESSION": "none"})
    if not first:
        table.write(notes({1: "token-of-ann"}), user="ann")
        lake.flush()
    table.write(notes({2: "token-of-ann"}), user="ann")
    flush = sleeping_flush(lake, place)
    lake.erase("ann")
    flush.wake()
    assert lake.verify_erased("ann", deep=True).findings == ()
    assert table.users() == []
    table.write(notes({5: "anew"}), user="ann")
    lake.flush()
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}
    assert raw_hits(lake, "token-of-ann") == []
    assert lake.pending() == []


@pytest.mark.parametrize("place", _PLACES)
def test_a_flush_that_sleeps_until_the_user_starts_anew_brings_nothing_back(lake: Lakehouse, place: str) -> None:
    table = make_notes(lake, options={"COMPRESSION": "none"})
    table.write(notes({2: "token-of-ann"}), user="ann")
    flush = sleeping_flush(lake, place)
    lake.erase("ann")
    table.write(notes({5: "anew"}), user="ann")
    flush.wake()
    lake.flush()
    assert strong(table, "ann") == eventual(table, "ann") == {5: "anew"}
    assert table.users() == ["ann"]
    assert raw_hits(lake, "token-of-ann") == []


def test_a_restore_brings_nothing_back(lake: Lakehouse) -> None:
    table = make_notes(lake)
    for text in ("one", "two"):
        table.write(notes({1: text}), user="ann")
        lake.flush()
    lake.erase("ann")
    with pytest.raises(LakewardenError):
        _raised(lake.restore(NOTES, user="ann", version=0, dry_run=False))
    assert strong(table, "ann") == {}


def _raised(reports: list[ScopeReport]) -> None:
    for report in reports:
        if report.fault:
            raise NotFound(report.fault.message)


# What the search finds


@pytest.fixture
def erased(lake: Lakehouse) -> TableClient:
    """Two users, the first of whom was erased; a copy of the first one's data file lies outside."""
    table = make_notes(lake)
    for user in ("ann", "bob"):
        table.write(notes({1: f"of {user}"}), user=user)
    lake.flush()
    data = next(scope_path(lake, "ann").glob("*.parquet"))
    shutil.copy(data, Path(lake.warehouse.uri).parent / "copy.parquet")
    lake.erase("ann", deep=True)
    return table


def _copy(lake: Lakehouse, *to: str) -> None:
    where = Path(lake.warehouse.uri, *to)
    where.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(lake.warehouse.uri).parent / "copy.parquet", where)


@pytest.mark.slow
@pytest.mark.usefixtures("erased")
def test_a_copied_data_file_is_found_by_its_footer(lake: Lakehouse) -> None:
    _copy(lake, "data", "chat", "notes", "bob", "harmless.bin")
    assert planted(lake, "ann") == ["its footer names the user"]
    with pytest.raises(Conflict, match="harmless"):
        lake.erase("ann")
    with pytest.raises(BeingErased):
        lake.table(NOTES).write(notes({1: "x"}), user="ann")
    failed = lake.erasures()[-1]
    assert (failed.result, "ann" in json.dumps(failed.findings)) == ("failed", False)
    Path(lake.warehouse.uri, "data", "chat", "notes", "bob", "harmless.bin").unlink()
    assert lake.erase("ann").result == "complete"
    lake.table(NOTES).write(notes({1: "x"}), user="ann")


@pytest.mark.usefixtures("erased")
def test_a_copy_outside_of_every_table_is_found_by_a_deep_search(lake: Lakehouse) -> None:
    _copy(lake, "data", "elsewhere", "x")
    assert planted(lake, "ann") == []
    assert planted(lake, "ann", deep=True) == ["its footer names the user"]


@pytest.mark.usefixtures("erased")
def test_a_text_that_is_nobodys_is_found_by_a_deep_search(lake: Lakehouse) -> None:
    Path(lake.warehouse.uri, "data", "dump.csv").write_text("ann,secret\n")
    assert planted(lake, "ann", deep=True) == ["the user's id in an object that belongs to no user"]


@pytest.mark.usefixtures("erased")
def test_a_file_in_the_users_scope_is_found(lake: Lakehouse) -> None:
    _copy(lake, "data", "chat", "notes", "ann", "_files", "x")
    assert planted(lake, "ann") == ["a file in the user's scope"]


@pytest.mark.usefixtures("erased")
def test_a_copied_directory_is_found_by_its_name(lake: Lakehouse) -> None:
    _copy(lake, "data", "chat", "notes", "backup", "ann", "x")
    assert planted(lake, "ann") == ["its path names the user"]


def test_a_live_delta_table_is_found(lake: Lakehouse, erased: TableClient) -> None:
    erased.write(notes({1: "anew"}), user="ann")
    lake.flush()
    found = planted(lake, "ann")
    assert "Delta's log of the user's scope still adds files" in found
    assert "the user in the list of a table's scopes" in found


def test_a_hot_row_is_found(lake: Lakehouse, erased: TableClient) -> None:
    data = pack_segment("ab" * 16, 1, 0, [Chunk("bob", 1, b"x"), Chunk("ann", 1, b"y")])
    lake.warehouse.state.create(f"log/{erased.table.log_id}/segments/{77:020d}", data)
    assert planted(lake, "ann") == ["rows of the user in the write log"]


def test_a_tagged_version_is_found(lake: Lakehouse, erased: TableClient) -> None:
    tag = json.dumps({"user": "ann", "version": 0}).encode()
    lake.warehouse.state.create(f"tags/{erased.table.id}/anywhere/name", tag)
    assert planted(lake, "ann") == ["a tag of the user"]


def test_a_value_of_another_user_that_equals_the_id_is_counted(lake: Lakehouse, erased: TableClient) -> None:
    erased.write(notes({2: "ann"}), user="bob")
    lake.flush()
    erased.write(notes({3: "ann"}), user="bob")
    searched = lake.verify_erased("ann", deep=True)
    assert searched.findings == ()
    assert searched.coincidences >= 2


# Names


def test_jobs_and_certificates_know_the_user_by_a_keyed_hash_alone(lake: Lakehouse) -> None:
    table = make_notes(lake)
    table.write(notes({1: "x"}), user="the-one")
    lake.flush(user="the-one")
    assert raw_hits(lake, "the-one") != []
    lake.erase("the-one")
    hits = [name for name in raw_hits(lake, "the-one") if not name.startswith("data/")]
    assert hits == []
    mark = lake.warehouse.erasures.mark("the-one")
    assert {job.parameters.get("user") for job in lake.jobs()} == {mark}
    assert lake.erasures()[0].user == mark


def test_a_job_that_slept_through_an_erasure_is_noted_with_the_hash(lake: Lakehouse) -> None:
    table = make_notes(lake)
    warehouse = lake.warehouse
    jobs, began = JobLog(warehouse.state, warehouse.clock, warehouse.new_id), warehouse.clock()
    queued = jobs.claim(jobs.enqueue("flush", {"tables": NOTES, "user": "the-one"}), "a node")
    lake.erase("the-one", even_if_unknown=True)
    jobs.keep("flush", "FL-1", began, {"tables": NOTES}, "failed", "1 failed; chat.notes[the-one]: slept")
    with suppress(Conflict):
        jobs.finish(queued, "completed", "1 done")
    assert raw_hits(lake, "the-one") == []
    time.sleep(0.05)  # a file system dates by ticks of some milliseconds, and a job of the erasure's own tick counts as older
    table.write(notes({1: "anew"}), user="the-one")
    lake.flush(user="the-one")
    assert lake.jobs()[0].parameters["user"] == "the-one"


@pytest.mark.parametrize("ahead", [-YEAR, timedelta(0), YEAR], ids=["behind", "right", "ahead"])
def test_whether_a_job_slept_through_an_erasure_is_no_matter_of_its_clock(lake: Lakehouse, ahead: timedelta) -> None:
    warehouse = lake.warehouse
    jobs = JobLog(warehouse.state, lambda: system_clock() + ahead, warehouse.new_id)

    def ends(began: datetime) -> str:
        kept = jobs.keep("flush", f"FL-{began:%f}", began, {"tables": NOTES, "user": "the-one"}, "failed", "")
        return kept.parameters["user"]

    make_notes(lake)
    before = jobs.clock()
    lake.erase("the-one", even_if_unknown=True)
    assert ends(before) == warehouse.erasures.mark("the-one")
    time.sleep(0.02)  # longer than a disk's clock takes from one time to the next
    assert ends(jobs.clock()) == "the-one", "who came back"


def test_a_job_that_ends_during_a_second_erasure_is_noted_with_the_hash(lake: Lakehouse) -> None:
    make_notes(lake).write(notes({1: "x"}), user="ann")
    lake.erase("ann")
    lake.table(NOTES).write(notes({2: "x"}), user="ann")
    with pytest.raises(Died):
        run_erase(lake, "ann", dies("erase:forgotten"))
    warehouse = lake.warehouse
    jobs = JobLog(warehouse.state, warehouse.clock, warehouse.new_id)
    kept = jobs.keep("flush", "FL-2", warehouse.clock(), {"tables": NOTES, "user": "ann"}, "failed", "")
    assert kept.parameters["user"] == warehouse.erasures.mark("ann")


_PATHS = ["..", "a/../b", "/etc", "%2e%2e", "_delta_log", "_files", "manifest.json", "data", "notes", "*"]
_HOSTILE = [*_PATHS, "x" * 256, "nul\x00", "new\nline", "🦆"]


@pytest.mark.parametrize("user", _HOSTILE)
def test_hostile_ids_are_erased_and_nobody_else(lake: Lakehouse, user: str) -> None:
    table = make_notes(lake)
    table.write(notes({1: "theirs"}), user=user)
    table.write(notes({1: "kept"}), user="bob")
    lake.flush()
    table.write(notes({2: "theirs"}), user=user)
    assert lake.erase(user, deep=True).result == "complete"
    assert raw_hits(lake, "theirs") == []
    assert (strong(table, user), strong(table, "bob")) == ({}, {1: "kept"})


def test_what_cannot_be_erased_is_refused(lake: Lakehouse) -> None:
    make_notes(lake)
    lake.create_table("chat.everybody", columns=[Column("id", "BIGINT")], primary_key=["id"])
    with pytest.raises(NotFound):
        lake.erase("ann", ["chat.none"])
    with pytest.raises(InvalidArgument, match="SHARED"):
        lake.erase("ann", ["chat.everybody"])
    with pytest.raises(InvalidArgument):
        lake.erase("")
    assert lake.erasures() == []
    assert lake.erase("never was", even_if_unknown=True).result == "complete"


@pytest.mark.parametrize("way", ["erase", "request_erasure", "plan", "export"])
def test_a_mistyped_user_is_not_found_and_nothing_is_certified(lake: Lakehouse, way: str, tmp_path: Path) -> None:
    make_notes(lake).write(notes({1: "kept"}), user="ann")
    ways: dict[str, Callable[[], object]] = {
        "erase": lambda: lake.erase("anm"),
        "request_erasure": lambda: lake.request_erasure("anm"),
        "plan": lambda: lake.plan("erase", user="anm"),
        "export": lambda: lake.export("anm", str(tmp_path / "out")),
    }
    before = sorted(Path(lake.warehouse.uri).rglob("*"))
    with pytest.raises(NotFound, match="anm"):
        ways[way]()
    assert [path for path in sorted(Path(lake.warehouse.uri).rglob("*")) if "erasures" not in str(path)] == [
        path for path in before if "erasures" not in str(path)
    ]
    assert lake.erasures() == []
    assert not (tmp_path / "out").exists()


def _flushed(lake: Lakehouse) -> None:
    make_notes(lake).write(notes({1: "row"}), user="ann")
    lake.flush()


def _lost_its_registry(lake: Lakehouse) -> None:
    _flushed(lake)
    lake.warehouse.registry.remove(lake.tables()[0].id)


def _of_the_catalog(lake: Lakehouse) -> None:
    make_notes(lake)
    lake.sql("CREATE USER 'ann' WITH PASSWORD 'correct-horse-7' ROLE user")


def _requested(lake: Lakehouse) -> None:
    make_notes(lake)
    lake.request_erasure("ann", even_if_unknown=True)


def _erased_before(lake: Lakehouse) -> None:
    _flushed(lake)
    lake.erase("ann")


@pytest.mark.parametrize(
    "trace",
    [
        lambda lake: make_notes(lake).write(notes({1: "hot"}), user="ann"),
        _flushed,
        _lost_its_registry,
        _of_the_catalog,
        _requested,
        _erased_before,
    ],
)
def test_any_trace_of_a_user_is_enough(lake: Lakehouse, trace: Callable[[Lakehouse], object]) -> None:
    trace(lake)
    assert lake.erase("ann").result == "complete"


def test_a_queued_erasure_is_run_by_its_keyed_hash_alone(lake: Lakehouse) -> None:
    make_notes(lake)
    lake.table(NOTES).write(notes({1: "secret"}), user="ann-7f3a")
    request = lake.request_erasure("ann-7f3a", asked_by="a test")
    assert lake.requested_erasure(request).user == "ann-7f3a"
    assert "ann-7f3a" not in request
    assert "a request for the user's erasure, with the id" in planted(lake, "ann-7f3a")
    certificate = lake.erase_requested(request)
    assert (certificate.user, certificate.asked_by, certificate.result) == (request, "a test", "complete")
    assert raw_hits(lake, "secret") == []
    assert not [path for path in raw_hits(lake, "ann-7f3a") if path.startswith("_lakewarden/")]
    with pytest.raises(NotFound, match="no erasure is requested"):
        lake.erase_requested(request)


@pytest.mark.slow
def test_an_erasure_at_once_takes_the_queued_one_along(lake: Lakehouse) -> None:
    make_notes(lake)
    request = lake.request_erasure("ann-7f3a", even_if_unknown=True)
    lake.erase("ann-7f3a")
    with pytest.raises(NotFound):
        lake.requested_erasure(request)


def test_a_queued_erasure_that_fails_stays_asked_for_and_its_error_has_no_id(lake: Lakehouse) -> None:
    make_notes(lake)
    lake.table(NOTES).write(notes({1: "secret"}), user="ann-7f3a")
    lake.flush()
    file = next(Path(scope_path(lake, "ann-7f3a")).glob("*.parquet"))
    copy = Path(scope_path(lake, "bob")) / file.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, copy)
    request = lake.request_erasure("ann-7f3a")
    with pytest.raises(Conflict, match="not everything is gone") as caught:
        lake.erase_requested(request)
    assert "ann-7f3a" not in str(caught.value)
    copy.unlink()
    assert lake.erase_requested(request).result == "complete"


def test_a_request_that_cannot_be_is_refused(lake: Lakehouse) -> None:
    make_notes(lake)
    with pytest.raises(NotFound):
        lake.request_erasure("ann", ["chat.nothing"])
    with pytest.raises(InvalidArgument, match="keyed hash"):
        lake.requested_erasure("ann")
    with pytest.raises(InvalidArgument, match="keyed hash"):
        lake.requested_erasure("../key")
