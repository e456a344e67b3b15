"""One listing is not one moment: nothing false is said while a writer commits, compacts and vacuums, and nothing is hidden."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden.base.connection import Location
from lakewarden.delta.examination import examination
from lakewarden.delta.examination.examination import Examination, _Look, examine
from lakewarden.delta.examination.file_notes import SuspectObject
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.replay.log_state import Note
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store
from tests.delta.examination.damaged import checkpoint, log, whole
from tests.delta.hand_written import HandWritten, remove


@pytest.fixture
def table(tmp_path: Path) -> HandWritten:
    made = HandWritten(tmp_path / "t")
    whole(made)
    return made


def listing(table: HandWritten) -> TableListing:
    return TableListing.of(open_store(table.location).list(""))


def kinds(found: Examination) -> list[str]:
    return [note.kind for note in found.notes]


def mixed(before: TableListing, after: TableListing, *, log_is_new: bool) -> TableListing:
    """A listing whose log is of another moment than its files."""
    sources = ((before, not log_is_new), (after, log_is_new))
    keep = [
        (key, size, modified)
        for found, of_log in sources
        for key, size, modified in zip(found.keys, found.sizes, found.modified, strict=True)
        if key.startswith("_delta_log/") is of_log
    ]
    keys, sizes, modified = zip(*keep, strict=True)
    return TableListing([*keys], [*sizes], [*modified])


def test_a_file_that_came_behind_its_part_of_the_listing_is_there(table: HandWritten) -> None:
    before = listing(table)
    table.commit(4, table.file("p=c/4.parquet", [1], partition={"p": "c"}))
    found = examine(table.location, mixed(before, listing(table), log_is_new=True))
    assert (kinds(found), found.state and found.state.version) == ([], 4)


def test_a_file_that_was_removed_and_vacuumed_meanwhile_is_not_missed(table: HandWritten) -> None:
    before = listing(table)
    table.commit(4, remove("p=b/3.parquet"))
    (table.path / "p=b/3.parquet").unlink()
    found = examine(table.location, mixed(before, listing(table), log_is_new=False))
    assert (kinds(found), found.state and found.state.version) == ([], 4)


def test_a_file_that_is_gone_is_said_also_where_the_log_moved(table: HandWritten) -> None:
    (table.path / "p=b/3.parquet").unlink()
    before = listing(table)
    table.commit(4, table.file("p=c/4.parquet", [1], partition={"p": "c"}))
    found = examine(table.location, before)
    assert (kinds(found), found.state and found.state.version) == (["hollow"], 4)


def test_what_was_mended_meanwhile_is_not_said(table: HandWritten) -> None:
    good = {path: path.read_bytes() for path in (checkpoint(table), table.path / log(3))}
    for path in good:
        path.write_bytes(b"{")
    before = listing(table)
    for path, data in good.items():
        path.write_bytes(data)
    assert kinds(examine(table.location, before)) == []


def test_a_log_that_was_cleaned_meanwhile_has_no_gap(table: HandWritten) -> None:
    """What the listing named is gone below a newer checkpoint."""
    before = listing(table)
    table.commit(4, {"commitInfo": {}})
    DeltaTable(table.path).create_checkpoint()
    checkpoint(table).unlink()
    for version in range(4):
        (table.path / log(version)).unlink()
    found = examine(table.location, before)
    assert (kinds(found), found.state and found.state.version) == ([], 4)


def test_a_pointer_that_came_behind_the_listing_names_a_checkpoint(table: HandWritten) -> None:
    """The log is listed, then a checkpoint is written, and then the pointer to it is read."""
    before = listing(table)
    table.commit(4, {"commitInfo": {}})
    DeltaTable(table.path).create_checkpoint()
    assert kinds(examine(table.location, before)) == []


def test_a_checksum_that_was_listed_before_its_commit_tells_of_no_loss(table: HandWritten) -> None:
    """A disk lists in no order, so an object may be listed without one that is older."""
    before = (table.path / log(3)).rename(table.path / "elsewhere")
    (table.log / f"{3:020d}.crc").write_text("{}")
    now = listing(table)
    before.rename(table.path / log(3))
    assert kinds(examine(table.location, now)) == []


def test_a_suspect_that_a_commit_removes_while_it_is_asked_for_is_not_missed(
    table: HandWritten, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.commit(4, table.file("p=c/4.parquet", [1], partition={"p": "c"}))
    now = listing(table)
    rows = [row for row in zip(now.keys, now.sizes, now.modified, strict=True) if row[0] != "p=c/4.parquet"]
    keys, sizes, modified = zip(*rows, strict=True)  # the file came behind its part of the listing
    ask = examination._still

    def removed_first(store: ObjectStore, odd: Collection[SuspectObject]) -> list[SuspectObject]:
        table.commit(5, remove("p=c/4.parquet"))
        (table.path / "p=c/4.parquet").unlink()
        return ask(store, odd)

    monkeypatch.setattr(examination, "_still", removed_first)
    assert kinds(examine(table.location, TableListing([*keys], [*sizes], [*modified]))) == []


def test_what_one_look_alone_finds_in_a_log_that_moves_is_not_said(table: HandWritten, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a pointer that is read behind a listing without its checkpoint: the look after it finds nothing."""
    found = listing(table)
    (table.path / "p=b/3.parquet").unlink()  # what a second look is for
    follow, passing, turns = examination._follow, Note("last-checkpoint-wrong", "it names version 9", (9,)), iter(range(9))

    def moving(location: Location, look: _Look, store: ObjectStore, *, deep: bool) -> _Look:
        match next(turns):
            case 0:
                return replace(look, notes=(*look.notes, passing))
            case 1:
                return replace(look, notes=tuple(note for note in look.notes if note is not passing))
            case _:
                return follow(location, look, store, deep=deep)

    monkeypatch.setattr(examination, "_follow", moving)
    lacking = [row for row in zip(found.keys, found.sizes, found.modified, strict=True) if row[0] != "p=b/3.parquet"]
    keys, sizes, modified = zip(*lacking, strict=True)
    assert kinds(examine(table.location, TableListing([*keys], [*sizes], [*modified]))) == ["hollow"]


def test_very_many_suspects_cost_a_listing(table: HandWritten) -> None:
    table.commit(4, *(table.file(f"p=m/{number}.parquet", [1], partition={"p": "m"}) for number in range(300)))
    shutil.rmtree(table.path / "p=m")
    found = examine(table.location, listing(table))
    assert kinds(found) == ["hollow"]
    assert "and 297 more of 302 live files" in found.notes[0].detail


@contextmanager
def _busy(path: str, seed: int) -> Iterator[None]:
    """A writer of delta-rs that appends, overwrites, compacts, checkpoints and vacuums until the block ends."""
    chosen, done = random.Random(seed), threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            while not done.is_set():
                _step(path, chosen)
        except BaseException as error:  # noqa: BLE001  # the test says it
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert failed == []


def _step(path: str, chosen: random.Random) -> None:
    rows = pa.table({"Day": [str(chosen.randrange(3))], "id": [chosen.randrange(9)]})
    match chosen.randrange(6):
        case 0:
            DeltaTable(path).optimize.compact()
        case 1:
            DeltaTable(path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        case 2:
            DeltaTable(path).create_checkpoint()
        case 3:
            write_deltalake(path, rows, mode="overwrite", partition_by=["Day"])
        case _:
            write_deltalake(path, rows, mode="append", partition_by=["Day"])


def _half_by_half(location: Location, cut: str) -> TableListing:
    """A listing that is slow: what comes before that key is of an earlier moment than the rest."""
    store = open_store(location)
    first, rest = (store.list("") for _ in range(2))
    return TableListing.of([*(each for each in first if each.key < cut), *(each for each in rest if each.key >= cut)])


def _look_while_busy(path: Path, looks: int, seed: int) -> int:
    """Returns how many looks there were; each finds nothing wrong."""
    location = Location(str(path))
    write_deltalake(path, pa.table({"Day": ["1"], "id": [1]}), partition_by=["Day"])
    versions: set[int | None] = set()
    with _busy(str(path), seed):
        number = 0
        while number < looks or len(versions) < looks // 6:
            number += 1
            found = examine(location, _half_by_half(location, ("_delta_log", "_delta_log/~", "Day=1")[number % 3]))
            assert (found.verdict, found.notes) == ("sound", ())
            versions.add(None if found.state is None else found.state.version)
    return len(versions)


@pytest.mark.slow
def test_nothing_false_is_said_while_a_writer_commits_compacts_and_vacuums(tmp_path: Path) -> None:
    assert _look_while_busy(tmp_path / "t", 60, 7) >= 10


@pytest.mark.night
@pytest.mark.parametrize("seed", range(2))
def test_nothing_false_is_said_for_long(tmp_path: Path, seed: int) -> None:
    assert _look_while_busy(tmp_path / "t", 300, seed) >= 50
