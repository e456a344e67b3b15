"""Tables that are made to take all memory or time, or whose names are those of no writer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.base.connection import Location
from lakewarden.delta.examination import listing as listings
from lakewarden.delta.examination.examination import examine
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.examination.log_notes import below_checkpoint
from lakewarden.delta.replay.log_objects import checkpoint_name, commit_name
from tests.delta.examination.damaged import LAST, PART, log, look, whole
from tests.delta.hand_written import HandWritten, metadata

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def table(tmp_path: Path) -> HandWritten:
    made = HandWritten(tmp_path / "t")
    whole(made)
    return made


def test_a_log_of_more_objects_than_are_held_is_refused(table: HandWritten, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.delta.examination.examination.MOST_LOG_OBJECTS", 5)
    found = look(table)
    assert (found.verdict, found.state) == ("unreadable", None)
    assert "at most 5 are looked at" in found.error
    assert listings.MOST_LOG_OBJECTS >= 1_000_000


def test_names_of_every_script_and_of_none(table: HandWritten) -> None:
    names = ["日本語", "<script>alert(1)</script>".replace("/", ""), "a'b\"c", "عربى", "\u202etxt", "x" * 200, "a\nb", "%", "🐘"]
    table.commit(
        4, *(table.file(f"p={number}/{name}.parquet", [1], partition={"p": str(number)}) for number, name in enumerate(names))
    )
    keys = [name.replace("%", "%25") for name in names]
    actions = [json.loads(line)["add"] for line in (table.path / log(4)).read_text().splitlines()]
    table.commit(
        4, *({"add": {**each, "path": f"p={n}/{key}.parquet"}} for n, (each, key) in enumerate(zip(actions, keys, strict=True)))
    )
    found = look(table)
    assert (found.verdict, found.notes, found.figures.unnamed_files) == ("sound", (), 0)
    (table.path / f"p=1/{names[1]}.parquet").unlink()
    assert [note.kind for note in look(table).notes] == ["hollow"]


@pytest.mark.parametrize("version", [log(10**19 + 5), f"_delta_log/{10**19}.checkpoint.parquet", "_delta_log/x.json"])
def test_names_of_a_log_that_no_version_has(table: HandWritten, version: str) -> None:
    """A commit beyond what Delta counts is none; the rest are other objects."""
    if "checkpoint" not in version:
        (table.path / version).write_text("{}")
    assert look(table).verdict == "sound"


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"version":' + "9" * 5000 + "}", '{"version":1e400}', '{"version":true}', "null"]
)
def test_pointers_that_are_made_to_harm(table: HandWritten, text: str) -> None:
    (table.path / LAST).write_text(text)
    assert [note.kind for note in look(table).notes] == ["last-checkpoint-wrong"]


@pytest.mark.parametrize("schema", ["[" * 200_000, '{"type":"struct","fields":' + "[" * 9_000, "7", '{"fields":[1,{"type":[]}]}'])
def test_schemas_that_are_made_to_harm(table: HandWritten, schema: str) -> None:
    said = metadata(PART, ["p"])
    said["metaData"]["schemaString"] = schema
    table.commit(4, said)
    assert look(table).verdict == ("damaged" if "[[" in schema else "unreadable")


@pytest.mark.parametrize(
    "action", ['{"x":' + "[" * 500_000 + "]" * 500_000 + "}", '{"commitInfo":' + '{"a":' * 500_000 + "1" + "}" * 500_000 + "}"]
)
def test_a_commit_that_is_nested_too_deep_is_torn(table: HandWritten, action: str) -> None:
    (table.path / log(4)).write_text(action)
    assert [note.kind for note in look(table).notes] == ["torn-commit"]


def test_a_commit_that_is_too_long_is_refused(table: HandWritten) -> None:
    with (table.path / log(4)).open("wb") as file:
        file.truncate(4 << 30)  # without a block on the disk
    found = look(table)
    assert (found.verdict, "too large" in found.error) == ("unreadable", True)


def test_an_empty_listing_is_no_table(tmp_path: Path) -> None:
    found = examine(Location(str(tmp_path)), TableListing([], [], []))
    assert (found.verdict, found.state, found.error) == ("unreadable", None, "it has no commit and no checkpoint")
    only = TableListing(["_delta_log/_last_checkpoint"], [1], [NOW])
    assert examine(Location(str(tmp_path)), only).verdict == "unreadable"


def test_many_empty_commits_are_one_note() -> None:
    keys = [*map(commit_name, range(151)), checkpoint_name(150)]
    listing = TableListing(keys, [0] * 150 + [1, 1], [NOW] * 152)
    (note,) = below_checkpoint(listing)
    assert (note.kind, note.versions) == ("torn-commit", tuple(range(100)))
