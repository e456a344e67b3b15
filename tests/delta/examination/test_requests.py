"""What a look costs, as the meter counts it on an object store: no listing, and each object of the log at most once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakewarden.base.connection import Location
from lakewarden.delta.commit_log.stamp import ERASE, CommitStamp
from lakewarden.delta.examination.examination import Examination, examine
from lakewarden.delta.examination.listing import TableListing
from lakewarden.storage.meter import metered
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from tests.delta.examination.damaged import CRC, LAST, PART, _checkpoint_without_a_file, checkpoint, log, whole, with_checksum
from tests.delta.hand_written import HandWritten, add, metadata, protocol
from tests.fixtures.minio import MinioServer

MANY = 30


class Copy:
    """A copy of a table in a bucket, looked at by a listing whose times can be set."""

    def __init__(self, table: HandWritten, location: Location) -> None:
        self.location = location
        self.store: ObjectStore = open_store(location)
        for path in sorted(table.path.rglob("*")):
            if path.is_file():
                self.store.put(str(path.relative_to(table.path)), path.read_bytes())
        self.written: dict[str, datetime] = {}

    def look(self, *, deep: bool = False) -> tuple[Examination, dict[str, int]]:
        found = TableListing.of(self.store.list(""))
        times = [self.written.get(key, BEFORE) for key in found.keys]
        with metered() as account:
            seen = examine(self.location, TableListing(found.keys, found.sizes, times), deep=deep)
        return seen, {kind: many for kind, many in account.total().items() if kind.isupper() and many}


BEFORE = datetime(2026, 1, 1, tzinfo=UTC)
LATER = BEFORE + timedelta(hours=1)


@pytest.fixture
def table(tmp_path: Path) -> HandWritten:
    made = HandWritten(tmp_path / "t")
    whole(made)
    return made


@pytest.fixture
def copied(minio: MinioServer, request: pytest.FixtureRequest) -> Callable[[HandWritten], Copy]:
    return lambda table: Copy(table, Location(f"{minio.prefix_for(request.node.name)}/t"))


def test_a_checkpoint_and_what_is_behind_it(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    """The checkpoint, `_last_checkpoint`, one commit; with more commits as many more, and no request for their files."""
    seen, spent = copied(table).look()
    assert (seen.verdict, seen.read, spent) == ("sound", "log", {"GET": 3})
    for number in range(MANY):
        table.commit(4 + number, table.file(f"p=c/{number}.parquet", [1], partition={"p": "c"}))
    seen, spent = copied(table).look()
    assert (seen.verdict, spent, seen.figures.commits_since_checkpoint) == ("sound", {"GET": 3 + MANY}, 1 + MANY)
    DeltaTable(table.path).create_checkpoint()
    seen, spent = copied(table).look()
    assert (seen.verdict, spent, seen.figures.writers) == ("sound", {"GET": 2}, {})


def test_a_whole_checksum_is_all_that_is_read(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    by_log, _ = copied(table).look()
    with_checksum(table)
    seen, spent = copied(table).look()
    assert (seen.verdict, seen.read, spent) == ("sound", "checksum", {"GET": 1})
    assert seen.state is not None
    assert by_log.state is not None
    assert seen.state.files.sort_by("key").equals(by_log.state.files.sort_by("key"))
    assert (seen.state.metadata, seen.state.protocol) == (by_log.state.metadata, by_log.state.protocol)
    assert (seen.figures.writers, seen.figures.tombstones, seen.figures.unnamed_files) == ({}, None, None)
    # its one tombstone is of the commit behind the checkpoint; that of the dead file has left the checkpoint
    assert (by_log.figures.unnamed_files, by_log.figures.tombstones) == (1, 1)
    assert by_log.figures.dead_bytes == seen.figures.dead_bytes


def test_the_fence_above_emptied_commits_is_read_once(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    """Where the table has a damage, too, for which it is looked at twice: its log has not moved."""
    table.commit(2, {"commitInfo": {"userMetadata": CommitStamp("job", ERASE).text()}})
    for version in (0, 1):
        (table.path / log(version)).write_bytes(b"")
    copy = copied(table)
    seen, spent = copy.look()
    # the fence, the checkpoint, the pointer, the commit behind it
    assert (seen.verdict, seen.figures.oldest_version, spent) == ("sound", 2, {"GET": 4})
    copy.store.delete(["p=b/3.parquet"])
    found = TableListing.of(copy.store.list(""))
    with metered() as account:
        seen = examine(copy.location, found)
    # the log listed around the question for the file, by one key
    spent = {kind: account.total()[kind] for kind in ("GET", "LIST")}
    assert ([note.kind for note in seen.notes], spent) == (["hollow"], {"GET": 5, "LIST": 2})


def test_a_damage_beside_a_checksum_costs_a_second_look_and_is_found(
    table: HandWritten, copied: Callable[[HandWritten], Copy]
) -> None:
    with_checksum(table)
    copy = copied(table)
    copy.store.delete(["p=b/3.parquet"])
    seen, spent = copy.look()
    assert ([note.kind for note in seen.notes], seen.verdict, seen.read) == (["hollow"], "damaged", "log")
    # the checksum; then the log listed, read with it and listed again around the question for the file, by two keys
    assert spent == {"GET": 6, "LIST": 2}


UNFIT: dict[str, Callable[[dict[str, object]], object]] = {
    "another number of files": lambda said: said.update(numFiles=1),
    "another size": lambda said: said.update(tableSizeBytes=1),
    "no metadata": lambda said: said.pop("metadata"),
    "a path that is none": lambda said: said.update(allFiles=[{"path": 1}]),
}


@pytest.mark.parametrize("how", UNFIT)
def test_a_checksum_that_contradicts_itself_is_passed_over(
    table: HandWritten, copied: Callable[[HandWritten], Copy], how: str
) -> None:
    said = with_checksum(table)
    UNFIT[how](said)
    (table.path / CRC).write_text(json.dumps(said))
    seen, spent = copied(table).look()
    assert (seen.verdict, seen.read, spent) == ("sound", "log", {"GET": 3})


def test_a_checksum_without_files_costs_no_more_than_none(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    """As Spark writes of larger tables. In place of the pointer, whose age the listing shows."""
    said = with_checksum(table)
    del said["allFiles"]
    (table.path / CRC).write_text(json.dumps(said))
    seen, spent = copied(table).look()
    assert (seen.verdict, seen.read, spent) == ("sound", "log", {"GET": 3})
    (table.path / LAST).write_text("{")
    copy = copied(table)
    copy.written = {LAST: LATER}
    assert [note.kind for note in copy.look()[0].notes] == ["last-checkpoint-wrong"]


def _rewritten(table: HandWritten) -> None:
    """The checkpoint without a file, and of the size that it had."""
    path = checkpoint(table)
    size = path.stat().st_size
    _checkpoint_without_a_file(table)
    assert path.stat().st_size != size
    pointer = json.loads((table.path / LAST).read_text())
    (table.path / LAST).write_text(json.dumps({**pointer, "sizeInBytes": path.stat().st_size}))


def _checkpoint_beside_a_checksum(table: HandWritten) -> None:
    """And a pointer that has no figures."""
    said = with_checksum(table)
    del said["allFiles"]
    (table.path / CRC).write_text(json.dumps(said))
    (table.path / LAST).write_text('{"version":2,"size":6}')
    _checkpoint_without_a_file(table)


def _with_another_file(table: HandWritten) -> None:
    """As many files as before."""
    found = pq.read_table(checkpoint(table))
    column = found.column("add")
    rows = [row and {**row, "path": row["path"].replace("p=b/3", "p=b/other")} for row in column.to_pylist()]
    place = found.schema.get_field_index("add")
    pq.write_table(found.set_column(place, "add", pa.array(rows, column.type)), checkpoint(table))


@pytest.mark.parametrize("how", [_checkpoint_without_a_file, _with_another_file, _rewritten, _checkpoint_beside_a_checksum])
def test_a_checkpoint_that_has_other_figures_than_what_is_read_anyway_is_compared(
    table: HandWritten, copied: Callable[[HandWritten], Copy], how: Callable[[HandWritten], None]
) -> None:
    how(table)
    seen, _ = copied(table).look()
    assert ("checkpoint-contradicts" in {note.kind for note in seen.notes}, seen.verdict) == (True, "damaged")


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[]", b"[" * 100_000])
def test_a_checksum_that_is_garbled_costs_no_more_than_none(
    table: HandWritten, copied: Callable[[HandWritten], Copy], text: bytes
) -> None:
    with_checksum(table)
    (table.path / CRC).write_bytes(text)
    seen, spent = copied(table).look()
    assert (seen.verdict, seen.read, spent) == ("sound", "log", {"GET": 3})


EMPTY = {LAST: "last-checkpoint-wrong", log(1): "torn-commit", f"_delta_log/{2:020d}.checkpoint.parquet": "checkpoint-unreadable"}


@pytest.mark.parametrize("name", EMPTY)
def test_a_log_with_an_empty_object_is_read_whatever_its_checksum_says(
    table: HandWritten, copied: Callable[[HandWritten], Copy], name: str
) -> None:
    """In a copy, too, whose times say nothing."""
    with_checksum(table)
    (table.path / name).write_bytes(b"")
    for deep in (False, True):
        seen, _ = copied(table).look(deep=deep)
        assert (seen.read, [note.kind for note in seen.notes]) == ("log", [EMPTY[name]])


@pytest.mark.parametrize("lost", [checkpoint, lambda table: table.log / f"{3:020d}.json"])
def test_a_checksum_that_is_left_alone_is_not_believed(
    table: HandWritten, copied: Callable[[HandWritten], Copy], lost: Callable[[HandWritten], Path]
) -> None:
    """The pointer has no checkpoint; the newest commit is gone."""
    with_checksum(table)
    lost(table).unlink()
    assert copied(table).look()[0].read == "log"


@pytest.mark.parametrize("names_files", [True, False])
def test_a_newest_commit_that_lost_a_line_differs_from_its_checksum(
    table: HandWritten, copied: Callable[[HandWritten], Copy], names_files: bool
) -> None:
    """Within the requests of a look, which is repeated before it is said."""
    said = with_checksum(table)
    if not names_files:
        del said["allFiles"]
    (table.path / CRC).write_text(json.dumps(said))
    (table.path / log(3)).write_text((table.path / log(3)).read_text().splitlines()[0])
    copy = copied(table)
    copy.written = {log(3): LATER}
    seen, spent = copy.look()
    assert (seen.read, [note.kind for note in seen.notes], seen.verdict) == ("log", ["torn-commit"], "damaged")
    assert "1 files, not 2" in seen.notes[0].detail
    # twice the checkpoint, the commit, the checksum, the pointer and the commits below the checkpoint, which might be wrong
    assert spent == {"GET": 2 * (4 + 3), "LIST": 1}


def test_a_checksum_of_a_commit_that_was_overwritten(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    """The commit is younger than its checksum, and so is no live file: what it says now is read, and is not what was said."""
    with_checksum(table)
    table.commit(3, add("p=z/other.parquet", size=1, partition={"p": "z"}))
    copy = copied(table)
    copy.written = {log(3): LATER}
    seen, _ = copy.look()
    assert (seen.read, [note.kind for note in seen.notes], seen.verdict) == ("log", ["torn-commit", "hollow"], "damaged")
    copy.written = dict.fromkeys(copy.store.keys(""), LATER) | {CRC: BEFORE}
    assert copy.look()[0].read == "log"
    copy.store.put("p=a/of-nobody.parquet", b"?")
    copy.written = {log(3): LATER, "p=a/of-nobody.parquet": LATER + timedelta(seconds=1)}
    assert copy.look()[0].read == "log", "a file that no commit names says nothing of a copy"


def test_a_checksum_that_was_overwritten_by_an_older_one(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    """It is the youngest object: long behind its commit, or with others in between. What it names is compared with the log."""
    table.commit(4, table.file("p=d/5.parquet", [1], partition={"p": "d"}))
    for version in (3, 4):
        with_checksum(table, version)
    copy, newest = copied(table), f"_delta_log/{4:020d}.crc"
    copy.written = {newest: BEFORE + timedelta(seconds=2)}
    assert (copy.look()[0].read, copy.look()[1]) == ("checksum", {"GET": 1})
    copy.store.put(newest, copy.store.get(CRC))
    for copy.written in ({newest: LATER}, {newest: BEFORE + timedelta(seconds=2), log(1): BEFORE + timedelta(seconds=1)}):
        seen, _ = copy.look()
        assert (seen.read, [note.kind for note in seen.notes], seen.verdict) == ("log", ["torn-commit"], "damaged")


def test_a_checkpoint_that_lacks_a_part_by_its_names_is_read(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    """As Spark names its sidecars. With a checksum the log is not read otherwise."""
    with_checksum(table)
    uuid = "80a083e8-7026-4e79-81be-64bd76c43a11"
    parts = [f"{2:020d}.checkpoint.{number:010d}.{2:010d}.{uuid}.parquet" for number in (1, 2)]
    (table.log / "_sidecars").mkdir()
    for part in parts:
        shutil.copy(checkpoint(table), table.log / "_sidecars" / part)
    checkpoint(table).unlink()
    (table.path / LAST).unlink()
    lines = [protocol("deletionVectors", "v2Checkpoint"), metadata(PART, ["p"])]
    lines += [{"sidecar": {"path": part, "sizeInBytes": 1, "modificationTime": 1}} for part in parts]
    (table.log / f"{2:020d}.checkpoint.{uuid}.json").write_text("\n".join(map(json.dumps, lines)))
    copy = copied(table)
    assert copy.look()[0].read == "checksum"
    copy.store.delete([f"_delta_log/_sidecars/{parts[0]}"])
    seen, _ = copy.look()
    assert (seen.read, [note.kind for note in seen.notes]) == ("log", ["checkpoint-unreadable"])


def test_the_times_of_a_copy_say_nothing_of_a_checksum(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    """Copied in the order of names, commits come behind their checksums, and live files behind all of the log."""
    with_checksum(table)
    copy = copied(table)
    copy.written = {log(3): LATER, "p=a/1.parquet": LATER + timedelta(seconds=1)}
    assert (copy.look()[0].read, copy.look()[1]) == ("checksum", {"GET": 1})


LATE: dict[str, str] = {"a commit": log(2), "a checkpoint": f"_delta_log/{2:020d}.checkpoint.parquet", "the pointer": LAST}


@pytest.mark.parametrize("what", LATE)
def test_what_was_touched_behind_the_checksum_is_read(
    table: HandWritten, copied: Callable[[HandWritten], Copy], what: str
) -> None:
    with_checksum(table)
    copy = copied(table)
    copy.written = {LATE[what]: LATER}
    assert copy.look()[0].read == "log"


def test_a_pointer_that_is_touched_without_a_checkpoint_is_read(
    table: HandWritten, copied: Callable[[HandWritten], Copy]
) -> None:
    """A checkpoint of the version itself, and the pointer to it, are written behind its checksum; that of another is not."""
    with_checksum(table)
    (table.path / LAST).write_text("{")
    copy = copied(table)
    copy.written = {LAST: BEFORE + timedelta(seconds=1)}
    assert [note.kind for note in copy.look()[0].notes] == ["last-checkpoint-wrong"]


def test_a_pointer_that_is_garbled_in_a_copy_is_read(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    """There commits are younger than their checksums, which therefore do not stand for the log."""
    with_checksum(table)
    (table.path / LAST).write_text("{")
    copy = copied(table)
    copy.written = {log(3): LATER, LAST: LATER}
    assert [note.kind for note in copy.look()[0].notes] == ["last-checkpoint-wrong"]


def test_a_checkpoint_that_is_overdue_is_asked_for(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    """Beside a whole checksum, where an older one is there: by the pointer, in one request more."""
    for version in range(4, 11):
        table.commit(version, {"commitInfo": {}})
    said = with_checksum(table, 10)
    seen, spent = copied(table).look()
    assert (seen.verdict, seen.read, spent) == ("sound", "checksum", {"GET": 2})
    (table.path / LAST).write_text('{"version":10,"size":6}')
    assert [note.kind for note in copied(table).look()[0].notes] == ["last-checkpoint-wrong"]
    said["metadata"]["configuration"]["delta.checkpointInterval"] = "9" * 5_000
    (table.path / f"_delta_log/{10:020d}.crc").write_text(json.dumps(said))
    assert copied(table).look()[0].read == "checksum"


def test_a_commit_below_the_checkpoint_that_is_the_youngest_of_all_is_read(
    table: HandWritten, copied: Callable[[HandWritten], Copy]
) -> None:
    copy = copied(table)
    copy.written = {log(1): LATER}
    assert (copy.look()[0].verdict, copy.look()[1]) == ("sound", {"GET": 3 + 3})
    copy.store.put(log(1), b"{")
    assert [note.kind for note in copy.look()[0].notes] == ["torn-commit"]


def test_a_log_with_a_hole_is_read(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    table.commit(4, table.file("p=c/4.parquet", [1], partition={"p": "c"}))
    with_checksum(table, 4)
    copy = copied(table)
    copy.store.delete([log(3)])
    seen, _ = copy.look()
    assert ([note.kind for note in seen.notes], seen.state and seen.state.version) == (["log-gap"], 2)


def test_a_log_with_an_empty_commit_is_read(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    with_checksum(table)
    copy = copied(table)
    copy.store.put(log(3), b"")
    seen, _ = copy.look()
    assert ([note.kind for note in seen.notes], seen.state and seen.state.version) == (["torn-commit"], 2)


def test_a_deep_look_reads_the_log(table: HandWritten, copied: Callable[[HandWritten], Copy]) -> None:
    with_checksum(table)
    seen, spent = copied(table).look(deep=True)
    # the checkpoint, the pointer, the checksum, four commits; two footers, one vector
    assert (seen.verdict, seen.read, spent) == ("sound", "log", {"GET": 7 + 2 + 1})
