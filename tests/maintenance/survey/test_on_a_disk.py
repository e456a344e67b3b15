"""A survey of a directory: which tables are there, what stands outside, and logs and names that are meant to do harm."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

import lakewarden
from lakewarden.base.connection import Location
from lakewarden.errors import InvalidArgument
from lakewarden.maintenance.survey import listing, run
from lakewarden.maintenance.survey.listing import FoundTable
from lakewarden.maintenance.survey.run import survey_places, table_around
from lakewarden.maintenance.survey.table_survey import TableSurvey
from tests.delta.hand_written import HandWritten, add

pytestmark = pytest.mark.disk


def table(path: Path) -> HandWritten:
    made = HandWritten(path)
    made.begin(made.file("1.parquet", [1]))
    return made


def survey(path: Path) -> dict[str, TableSurvey]:
    return {each.path.removeprefix(f"{path}").strip("/"): each for each in lakewarden.survey(str(path))}


def test_every_table_is_found_where_it_is(tmp_path: Path) -> None:
    """One at the place itself, nested, hidden, and in a log of another, which is none."""
    for name in ("", "in", "in/deeper", ".hidden/t", "_x/t", "a=1/t"):
        table(tmp_path / name)
    (tmp_path / "_delta_log" / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    (tmp_path / "readme.csv").write_text("x")
    found = survey(tmp_path)
    assert {name: each.verdict for name, each in found.items()} == dict.fromkeys(
        ("", "in", "in/deeper", ".hidden/t", "_x/t", "a=1/t"), "sound"
    )
    assert {name: each.files for name, each in found.items()} == dict.fromkeys(found, 1)
    assert found[""].alien_files == 1


def test_a_place_inside_of_a_table_has_none_and_says_which_it_is_in(tmp_path: Path) -> None:
    table(tmp_path / "t")
    (tmp_path / "t" / "day=1").mkdir()
    for inside in ("_delta_log", "day=1"):
        place = Location(str(tmp_path / "t" / inside))
        assert table_around(place) == str(tmp_path / "t")
        found = survey_places([place], lambda _place, _table: pytest.fail("there is no table"))
        assert found.inside == ((place.uri, str(tmp_path / "t")),)
    assert table_around(Location(str(tmp_path / "t"))) is None


def test_tables_with_large_logs_are_looked_at_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one takes in memory is then what all take; those of small logs go on beside it."""
    for name in "abcd":
        table(tmp_path / name)
        (tmp_path / name / "_delta_log" / "9.tmp").write_bytes(bytes(2_000) if name in "abc" else b"")
    monkeypatch.setattr(run, "_LARGE", 2_000)
    inside, most, small = list[str](), list[int](), threading.Event()

    def look(location: Location, found: FoundTable) -> TableSurvey:
        if found.path == "d":
            small.set()
        else:
            inside.append(found.path)
            assert small.wait(60), "it waits for no other"
            most.append(len(inside))
            inside.remove(found.path)
        return TableSurvey(location.uri, "sound")

    assert len(survey_places([Location(str(tmp_path))], look).tables) == len("abcd")
    assert most == [1, 1, 1]


def test_links_lead_nowhere(tmp_path: Path) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    table(place / "t")
    secret = table(outside / "secret")
    (place / "link").symlink_to(outside / "secret")
    (place / "t" / "2.parquet").symlink_to(outside / "secret" / "1.parquet")
    (place / "loop").symlink_to(place)
    found = survey(place)
    assert {name: (each.verdict, each.unnamed_files) for name, each in found.items()} == {"t": ("sound", 0)}
    stolen = HandWritten(place / "stolen")
    stolen.begin(add("1.parquet", size=(secret.path / "1.parquet").stat().st_size))
    (stolen.path / "1.parquet").symlink_to(secret.path / "1.parquet")
    assert survey(place)["stolen"].verdict == "damaged"


NAMES = ["line\nbreak", "<script>alert(1)</script>", "\x1b[31mred", "名前", "a=%2F..", "%2e%2e", "x'\"`$(y)", "-rf", "tab\t", "é"]


def test_names_of_every_kind_are_found_and_printed_in_one_line(tmp_path: Path) -> None:
    for name in NAMES:
        table(tmp_path / name / "t")
    no_text = tmp_path / os.fsdecode(b"\xff") / "_delta_log"
    no_text.mkdir(parents=True)
    (no_text / "00000000000000000000.json").write_text("{}")
    found = survey(tmp_path)
    odd = found.pop("\\xff")
    assert (odd.verdict, odd.error.partition("cannot be read: ")[2]) == ("unreadable", "its name is not UTF-8")
    with pytest.raises(InvalidArgument, match="UTF-8"):
        lakewarden.survey(str(no_text.parent))
    assert found.keys() == {f"{name}/t" for name in NAMES}
    assert {each.verdict for name, each in found.items() if name.isprintable()} == {"sound"}


HOSTILE = {
    "no JSON": b"\x00\xff\xfe",
    "nothing": b"",
    "nested": b'{"add":' * 100_000,
    "a list": b"[1, 2]",
    "large numbers": b'{"protocol":{"minReaderVersion":1e400,"minWriterVersion":99999999999999999999}}',
    "no metadata": b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
    "surrogates": b'{"metaData":{"id":"\\ud800"}}',
    "no schema": json.dumps({"metaData": {"id": "x", "schemaString": "{", "partitionColumns": []}}).encode()
    + b'\n{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_log_is_one_line_and_all_others_are_surveyed(tmp_path: Path, name: str) -> None:
    table(tmp_path / "a")
    (tmp_path / "hostile" / "_delta_log").mkdir(parents=True)
    (tmp_path / "hostile" / "_delta_log" / "00000000000000000000.json").write_bytes(HOSTILE[name])
    found = survey(tmp_path)
    assert found["a"].verdict == "sound"
    assert "INTERNAL" not in found["hostile"].error
    assert name == "no schema" or found["hostile"].verdict in {"unreadable", "damaged"}
    json.dumps([each.path for each in found.values()])


def test_a_log_that_reaches_out_is_named_and_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.parquet"
    secret.write_bytes(b"x" * 10)
    reaching = HandWritten(tmp_path / "place" / "t")
    reaching.begin(add("../../secret.parquet", size=10), add(str(secret), size=10))
    reaching.commit(1, add("%2e%2e/%2e%2e/secret.parquet", size=10))
    found = survey(tmp_path / "place")["t"]
    assert {each.kind for each in found.damage} == {"outside-path"}
    assert {found.operations[name].route for name in ("restore", "erase")} == {"refused"}


def test_a_table_with_very_many_objects_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PRUNED", 4)
    monkeypatch.setattr(listing, "_OWN", 8)
    monkeypatch.setattr(listing.Room.__init__, "__defaults__", (8,))
    large = table(tmp_path / "large")
    for version in range(1, 60):
        large.commit(version, {"commitInfo": {}})
    table(tmp_path / "small")
    found = survey(tmp_path)
    assert found["small"].verdict == "sound"
    assert found["large"].verdict == "unreadable"
    assert "61 objects" in found["large"].error
    assert all(each.route == "refused" for each in found["large"].operations.values())


def test_a_table_of_which_all_is_missing_is_not_vacuumed(tmp_path: Path) -> None:
    """Its place, or its log, is another table's. Losses are one damage, however many there are."""
    hollow = HandWritten(tmp_path / "t")
    hollow.begin(*(add(f"{number}.parquet") for number in range(50)))
    found = survey(tmp_path)["t"]
    assert [each.kind for each in found.damage] == ["hollow"]
    assert "47 more" in found.damage[0].detail
    assert found.operations["vacuum"].reason.startswith("hollow: all live files")
    (hollow.path / "7.parquet").write_bytes(b"x")
    assert survey(tmp_path)["t"].operations["vacuum"].route == "native"
