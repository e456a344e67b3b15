"""A look that goes on from what one before kept of a log: it finds what a first look finds, and asks for what came since."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden.base.connection import Location
from lakewarden.delta.examination import kept_log
from lakewarden.delta.examination.kept_log import KeptLog, KnownLogObjects, texts_of
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.replay.log_objects import LAST_CHECKPOINT, LOG
from lakewarden.maintenance.survey.listing import FoundTable
from lakewarden.maintenance.survey.table_survey import TableSurvey
from lakewarden.maintenance.survey.verdict import SurveyOptions, survey_table
from lakewarden.storage.local import LocalObjects
from lakewarden.storage.objects import Missing, StoredObject
from tests.delta.examination.damaged import DAMAGES, Damage, log, whole, with_checksum
from tests.delta.hand_written import HandWritten

HERE = "s3://lake/t"


class Bucket(LocalObjects):
    """A directory that answers as a bucket does, and notes what it was asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.asked: list[str] = []

    @property
    def uri(self) -> str:
        return HERE

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.asked.append(key)
        return super().get_range(key, start, length)


class Looks:
    """At one table, again and again."""

    def __init__(self, table: HandWritten) -> None:
        self.table = table
        self.kept = b""

    def look(self, *, anew: bool = False) -> tuple[TableSurvey, list[str]]:
        """What is found, and what was asked for."""
        store = Bucket(self.table.path)
        there = sorted(store.list(""), key=lambda each: (not each.key.startswith(f"{LOG}/"), each.key))
        etags = tuple(
            hashlib.md5((self.table.path / each.key).read_bytes()).hexdigest()  # as S3 makes them
            for each in there
            if each.key.startswith(f"{LOG}/")
        )
        found = FoundTable("t", TableListing.of(there), etags, store=store)
        kept = KeptLog(found.log, b"" if anew else self.kept)
        made = survey_table(Location(HERE), found, SurveyOptions(environment={}), kept)
        if not anew:
            self.kept = kept.packed()
        return made, store.asked


@pytest.fixture
def table(tmp_path: Path) -> HandWritten:
    return HandWritten(tmp_path / "t")


@pytest.mark.parametrize("damage", [damage for _, _, damage in DAMAGES], ids=[f"{kind}: {how}" for kind, how, _ in DAMAGES])
def test_a_damage_between_two_looks_is_found_as_by_a_first_one(
    table: HandWritten, damage: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_log, "_FEW", 0)
    whole(table)
    looks = Looks(table)
    assert looks.look()[0].verdict == "sound"
    assert looks.kept
    damage(table)
    first, _ = looks.look(anew=True)
    assert looks.look()[0] == first
    again, asked = looks.look()
    assert again == first
    assert not kept_of(looks).intersection(asked), "what is known is asked for no more"


def kept_of(looks: Looks) -> set[str]:
    return {*kept_log._known(looks.kept)}


def _of_commits(table: HandWritten, count: int) -> Looks:
    table.begin(table.file("0.parquet", [1]))
    _more(table, 1, count)
    return Looks(table)


def _more(table: HandWritten, first: int, end: int) -> None:
    for version in range(first, end):
        info = {
            "commitInfo": {"engineInfo": "delta-rs:py-1.6.6", "timestamp": version, "operationParameters": {"mode": "Append"}}
        }
        table.commit(version, table.file(f"{version}.parquet", [version]), info)


@pytest.mark.parametrize("count", [3, 5, 10, 30, 60])
def test_a_changed_table_costs_what_came_since(table: HandWritten, count: int) -> None:
    """Of a log without a checkpoint, which a first look reads whole; few objects are read again, and that stays within six."""
    looks = _of_commits(table, count)
    first, asked = looks.look()
    assert (first.version, Counter(asked)) == (count - 1, Counter(map(log, range(count))))
    for came in (1, 4):
        _more(table, count, count + came)
        known = count if count > 4 else 0
        found, asked = looks.look()
        assert (found.verdict, found.files, found.writers) == (
            "sound",
            count + came,
            {"delta-rs:py-1.6.6": count + came - 1, "": 1},
        )
        assert asked == [*map(log, range(known, count + came))]
        assert len(asked) <= 6 or came > 1
        count += came


def test_a_checkpoint_ends_what_is_kept_below_it(table: HandWritten) -> None:
    looks = _of_commits(table, 30)
    looks.look()
    DeltaTable(table.path).create_checkpoint()
    _more(table, 30, 37)
    assert looks.look()[1] == [LAST_CHECKPOINT, f"{LOG}/{29:020d}.checkpoint.parquet", *map(log, range(30, 37))]
    assert kept_of(looks) == {LAST_CHECKPOINT, *map(log, range(30, 37))}
    _more(table, 37, 38)
    assert looks.look()[1] == [f"{LOG}/{29:020d}.checkpoint.parquet", log(37)]


def test_a_checksum_costs_one_request_and_leaves_what_is_kept(table: HandWritten) -> None:
    looks = _of_commits(table, 10)
    looks.look()
    kept = looks.kept
    with_checksum(table, 9)
    assert (looks.look()[1], looks.kept) == ([f"{LOG}/{9:020d}.crc"], kept)


def test_what_is_too_much_is_not_kept(table: HandWritten, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = _of_commits(table, 20)
    for name in ("_MOST", "_MOST_READ"):
        with monkeypatch.context() as smaller:
            smaller.setattr(kept_log, name, 500)
            looks.look()
            assert looks.kept == b""
    looks.look()
    assert 0 < len(looks.kept) < 3_000


def test_no_statistics_and_no_settings_of_a_write_are_kept(table: HandWritten) -> None:
    """Values of rows stand there, and who wrote them."""
    looks = _of_commits(table, 5)
    added = table.file("ann/5.parquet", [1])["add"]
    stats = json.dumps({"numRecords": 1, "minValues": {"name": "ann"}})
    info = {"commitInfo": {"engineInfo": "x", "userName": "ann", "operationParameters": {"predicate": "name = 'ann'"}}}
    table.commit(5, info, {"add": {**added, "stats": stats, "tags": {"of": "ann"}}})
    looks.look()
    assert [text for text in texts_of(looks.kept) if "ann" in text] == ["ann/5.parquet"]
    assert '{"numRecords":1}' in [text.replace(" ", "") for text in texts_of(looks.kept)]


def test_what_was_read_ahead_is_asked_for_once_and_what_grew_or_is_gone_again(table: HandWritten) -> None:
    _of_commits(table, 4)
    store = Bucket(table.path)
    listed = [each for each in store.list(LOG) if each.key.endswith(".json")]
    grown = log(1).encode() + b" " * (1 << 20)
    (table.path / log(1)).write_bytes(grown)
    (table.path / log(2)).unlink()
    objects = KnownLogObjects(Location(HERE), store, None)
    objects.read_ahead(listed)
    assert objects.read(log(1), 2 << 20) == grown
    with pytest.raises(Missing):
        objects.read(log(2), 2 << 20)
    for version in (0, 3):
        assert objects.read(log(version), 2 << 20) == (table.path / log(version)).read_bytes()
    assert Counter(store.asked) == {log(0): 1, log(1): 2, log(2): 2, log(3): 1}


def test_large_objects_are_not_read_ahead(table: HandWritten) -> None:
    _of_commits(table, 4)
    store = Bucket(table.path)
    objects = KnownLogObjects(Location(HERE), store, None)
    objects.read_ahead([StoredObject(log(version), 600_000, each.modified) for version, each in enumerate(store.list(LOG)[:2])])
    assert store.asked == []


def test_a_log_with_a_gap_is_read_ahead_up_to_it(table: HandWritten) -> None:
    """However far above it the newest version is."""
    _of_commits(table, 4)
    (table.path / log(3)).rename(table.path / log(2**62))
    listing = TableListing.of(Bucket(table.path).list(""))
    assert [each.key for each in listing.replayed] == [log(0), log(1), log(2)]
