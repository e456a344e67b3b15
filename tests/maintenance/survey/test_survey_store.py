"""What a warehouse keeps of surveys: whole, by keyed hash, and gone with an erased user."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden import Lakehouse
from lakewarden.base.arrays import stream_bytes
from lakewarden.base.clock import random_id
from lakewarden.catalog.state.fleet_days import SurveySums, keep_survey_sums
from lakewarden.delta.examination.kept_log import KeptLog
from lakewarden.delta.examination.kinds import KINDS
from lakewarden.maintenance.survey import survey_store
from lakewarden.maintenance.survey.last_look import LastLook, SeenTable, digest_of
from lakewarden.maintenance.survey.survey_store import (
    HiddenNames,
    PlaceSums,
    decoded,
    encoded,
    keep,
    keep_look,
    last_look,
    name_in,
)
from lakewarden.maintenance.survey.table_survey import Damage, OperationEstimate, TableSurvey
from tests.delta.hand_written import add
from tests.fixtures.lakes import lake_fixture, make_notes, notes

lake = lake_fixture()

PLACE = "s3://lake/others"
_AT = datetime(2026, 11, 27, tzinfo=UTC)

FULL = TableSurvey(
    f"{PLACE}/tenants/ann/sales",
    "damaged",
    "1f0c…",
    7,
    tuple(Damage(kind, f"tenants/ann/part-{number}.parquet: {kind}", (number, 7)) for number, kind in enumerate(KINDS)),
    ("deletionVectors", "columnMapping"),
    "overwrites",
    writers={"Apache-Spark/4.1.4 Delta-Lake/4.4.0": 3, "": 1},
    tombstones=9,
    files=10,
    bytes=11,
    small_files=12,
    vector_rows=13,
    dead_bytes=14,
    unnamed_files=15,
    alien_files=16,
    commits_since_checkpoint=17,
    log_bytes=18,
    log_objects=19,
    oldest_version=20,
    error="it is gone: s3://lake/others/user=ann/_delta_log",
    operations={"compact": OperationEstimate("native", "", 4, 10_000, 0.25), "vacuum": OperationEstimate("refused", "hollow")},
)


def _look(*surveys: TableSurvey, rule: str = "r") -> LastLook:
    return LastLook(rule, {one.path: SeenTable(one, digest_of([(one.path, "e")], [("f", 1)])) for one in surveys})


def _kept_in(lake: Lakehouse, *surveys: TableSurvey, place: str = PLACE) -> None:
    found = {name_in(lake.warehouse, one.path): SeenTable(one, digest_of([], [])) for one in surveys}
    keep(lake.warehouse, place, LastLook("r", found), _AT)


def _sums(tables: Iterable[TableSurvey]) -> SurveySums:
    sums = PlaceSums()
    sums.with_all({one.path: SeenTable(one, digest_of([], [])) for one in tables})
    return sums.of(PLACE, _AT, "")


def _paths(lake: Lakehouse, place: str = PLACE) -> list[str]:
    return [one.survey.path for one in last_look(lake.warehouse, place).tables.values()]


def test_every_field_comes_back() -> None:
    bare = TableSurvey("s3://b/t", "unreadable", error="no answer")
    assert all(getattr(FULL, one.name) is not None for one in fields(FULL))
    look = _look(FULL, bare)
    assert decoded(encoded("rule", look.tables)) == ("rule", dict(look.tables))


def test_an_object_of_another_release_is_read_as_far_as_it_goes() -> None:
    table = pa.ipc.open_stream(encoded("r", _look(FULL).tables)).read_all().append_column("later", pa.array([1]))
    said = json.loads(table.column("survey")[0].as_py())
    fewer = {name: value for name, value in said.items() if name not in ("log_bytes", "writers")} | {"later": [1]}
    place = table.schema.get_field_index("survey")
    (seen,) = decoded(stream_bytes(table.set_column(place, "survey", pa.array([json.dumps(fewer).encode()]))))[1].values()
    assert seen.survey == replace(FULL, log_bytes=None, writers={})


@pytest.mark.parametrize(
    "data",
    [b"", b"x", encoded("r", _look(FULL).tables)[:-40], encoded("r", _look(FULL).tables).replace(b"format", b"formas")],
    ids=["emptied", "garbled", "cut off", "another format"],
)
def test_what_cannot_be_read_is_looked_at_anew(lake: Lakehouse, data: bytes) -> None:
    keep_look(lake.warehouse.state, name_in(lake.warehouse, PLACE), [data], 1, random_id)
    assert not last_look(lake.warehouse, PLACE).tables
    _kept_in(lake, FULL)
    assert last_look(lake.warehouse, PLACE).tables


def test_ten_thousand_tables_an_object(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_store, "TABLES", 10)
    surveys = [TableSurvey(f"{PLACE}/{number:03d}", "sound") for number in range(25)]
    _kept_in(lake, *surveys)
    assert sorted(key.rpartition("/")[2] for key in lake.warehouse.state.keys("surveys")) == ["1-of-3", "2-of-3", "3-of-3"]
    assert _paths(lake) == [one.path for one in surveys]
    _kept_in(lake)
    assert _paths(lake) == []


def test_users_stand_by_keyed_hash(lake: Lakehouse) -> None:
    make_notes(lake).write(notes({1: "x"}), user="ann")
    _kept_in(lake, FULL)
    mark = lake.warehouse.erasures.mark("ann")
    (seen,) = last_look(lake.warehouse, PLACE).tables.values()
    assert seen.survey.path == f"{PLACE}/tenants/{mark}/sales"
    assert seen.survey.error == f"it is gone: s3://lake/others/user={mark}/_delta_log"
    assert all("ann" not in lake.warehouse.state.get(key).decode(errors="replace") for key in _objects(lake))
    known = last_look(lake.warehouse, PLACE).seen(FULL.path, "r")
    assert known is not None
    assert known.survey.path == FULL.path


def _with_log(part: str) -> dict[str, SeenTable]:
    """A table of whose log a part of a path is kept, and the same as a value."""
    found = [(f"_delta_log/{version:020d}.json", "e") for version in range(5)]
    log = KeptLog(found)
    for name, _ in found:
        file = add(f"{part}/1.parquet", partition={"p": part.rpartition("=")[2]})
        log.add(name, json.dumps(file).encode())
    return {"t": SeenTable(TableSurvey(f"{PLACE}/t", "sound"), digest_of([], []), log.packed())}


@pytest.mark.parametrize("spelled", ["ann", "dept=ann", "a%6En", "!61nn"])
def test_of_a_log_that_names_a_user_nothing_is_kept(lake: Lakehouse, spelled: str) -> None:
    tables = _with_log(spelled)
    assert tables["t"].log
    keep(lake.warehouse, PLACE, LastLook("r", tables), _AT)
    assert last_look(lake.warehouse, PLACE).tables["t"] == tables["t"]
    make_notes(lake).write(notes({1: "x"}), user="ann")
    keep(lake.warehouse, PLACE, LastLook("r", tables), _AT)
    assert last_look(lake.warehouse, PLACE).tables["t"] == replace(tables["t"], log=b"")
    keep_look(lake.warehouse.state, name_in(lake.warehouse, PLACE), [encoded("r", tables)], 1, random_id)
    assert lake.erase("ann").result == "complete"
    assert _paths(lake) == []
    keep(lake.warehouse, PLACE, LastLook("r", tables), _AT)
    assert last_look(lake.warehouse, PLACE).tables["t"].log == b""


def _objects(lake: Lakehouse) -> list[str]:
    return [*lake.warehouse.state.keys("surveys"), *lake.warehouse.state.keys("fleet/surveys")]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("s3://b/ann/t", "s3://b/#/t"),
        ("s3://b/user=ann/t", "s3://b/user=#/t"),
        ("s3://b/a%6en/t", "s3://b/#/t"),
        ("s3://b/!61nn/t", "s3://b/#/t"),
        ("s3://b/ann2/t-ann/ANN", "s3://b/ann2/t-ann/ANN"),
        ("s3://b/Zo%c3%ab W/t", "s3://b/#/t"),
        ("s3://b/42/t", "s3://b/#/t"),
    ],
)
def test_parts_of_paths_are_hidden(text: str, hidden: str) -> None:
    names = HiddenNames({"ann", "Zoë W", "42"}, lambda _: "#")
    assert names(text) == hidden
    assert names(f"{text}") == HiddenNames((), lambda user: "#" if user in {"ann", "Zoë W", "42"} else "", {"#"})(text)


def test_numbers_in_sentences_are_no_users() -> None:
    names = HiddenNames({"42", "has"}, lambda _: "#")
    assert names.in_sentence("commit 42: a/42/p has 42 bytes") == "commit 42: a/#/p has 42 bytes"


@pytest.mark.parametrize("spelled", ["ann", "dept=ann", "a%6En", "!61nn"])
def test_an_erasure_removes_what_is_kept_and_names_the_user(lake: Lakehouse, spelled: str) -> None:
    """The user is not known when it is kept; the search, which shares nothing with it, finds nothing afterwards."""
    bad = replace(FULL, path=f"{PLACE}/{spelled}/t", damage=(Damage("hollow", f"{spelled}/p is missing"),), error="")
    _kept_in(lake, bad, TableSurvey(f"{PLACE}/bob/t", "sound"))
    assert any(spelled in path for path in _paths(lake))
    make_notes(lake).write(notes({1: "x"}), user="ann")
    lake.flush()
    assert lake.erase("ann").result == "complete"
    mark = lake.warehouse.erasures.mark("ann")
    assert _paths(lake) == []
    _kept_in(lake, bad)
    assert all(mark in path for path in _paths(lake)), "a later survey of the same place must not bring the name back"


@pytest.mark.slow
@pytest.mark.parametrize("spelled", ["ann", "dept=ann", "a%6En", "!61nn"])
@pytest.mark.parametrize("room", ["surveys", "logs", "sums"])
def test_a_planted_name_is_found(lake: Lakehouse, spelled: str, room: str) -> None:
    make_notes(lake).write(notes({1: "x"}), user="ann")
    lake.erase("ann")
    bad = TableSurvey(f"{PLACE}/{spelled}/t", "damaged")
    if room == "logs":
        keep_look(lake.warehouse.state, "f" * 32, [encoded("r", _with_log(spelled))], 1, random_id)
    elif room == "surveys":
        keep_look(lake.warehouse.state, "f" * 32, [encoded("r", _look(bad).tables)], 1, random_id)
    else:
        keep_survey_sums(lake.warehouse.state, "f" * 32, _sums([bad]))
    make_notes(lake).write(notes({1: "x"}), user="ann")
    with pytest.MonkeyPatch.context() as sleeping:
        sleeping.setattr("lakewarden.maintenance.erase.run.forget_user", lambda *_: None)
        with pytest.raises(Exception, match="a survey's path that names the user"):
            lake.erase("ann")
    assert lake.erase("ann").result == "complete"


@pytest.mark.slow
def test_names_that_are_words_of_ours_hinder_no_erasure(lake: Lakehouse) -> None:
    """They stand in columns of ours; a look goes where a path or a sentence has them."""
    table = make_notes(lake)
    _kept_in(lake, replace(FULL, path=f"{PLACE}/bob/t", damage=(Damage("hollow", "bob/p is missing"),), error=""))
    for user in ("damaged", "hollow", "native", "vacuum", "1", "path"):
        table.write(notes({1: "x"}), user=user)
        assert lake.erase(user).result == "complete"
    assert [one.survey.verdict for one in last_look(lake.warehouse, PLACE).tables.values()] == ["damaged"]


def test_an_erasure_of_one_table_leaves_surveys_alone(lake: Lakehouse) -> None:
    make_notes(lake).write(notes({1: "x"}), user="ann")
    lake.flush()
    keep_look(lake.warehouse.state, name_in(lake.warehouse, PLACE), [encoded("r", _look(FULL).tables)], 1, random_id)
    lake.erase("ann", tables=["chat.notes"])
    assert _paths(lake) == [FULL.path]


def test_an_erasure_while_it_is_kept_is_noticed(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins behind the look for erased users, and ends before the look is written."""
    make_notes(lake)
    write = keep_look

    def after_an_erasure(*args: object) -> list[str]:
        make_notes(lake).write(notes({1: "x"}), user="ann")
        assert lake.erase("ann").result == "complete"
        return write(*args)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(survey_store, "keep_look", after_an_erasure)
    _kept_in(lake, FULL)
    assert all("/ann/" not in path for path in _paths(lake))
    assert all(b"/ann/" not in lake.warehouse.state.get(key) for key in _objects(lake))


def test_a_restored_backup_costs_a_look_at_what_changed(lake: Lakehouse, tmp_path: Path) -> None:
    state = Path(lake.warehouse.state.uri)
    _kept_in(lake, TableSurvey(f"{PLACE}/a", "sound"))
    shutil.copytree(state, tmp_path / "backup")
    _kept_in(lake, TableSurvey(f"{PLACE}/a", "damaged"), TableSurvey(f"{PLACE}/b", "sound"))
    shutil.rmtree(state / "surveys")
    shutil.copytree(tmp_path / "backup" / "surveys", state / "surveys")
    assert _paths(lake) == [f"{PLACE}/a"]
    _kept_in(lake, TableSurvey(f"{PLACE}/b", "sound"))
    assert _paths(lake) == [f"{PLACE}/b"]


def test_sums_and_the_worst_first() -> None:
    sound = TableSurvey("t", "sound", files=2, bytes=100, small_files=1, dead_bytes=7, unnamed_files=1)
    tables = [
        *(replace(sound, path=f"t{number}") for number in range(3)),
        TableSurvey("u", "unreadable", error="403"),
        TableSurvey("d1", "damaged", damage=(Damage("hollow", "x"),), files=1),
        TableSurvey("d2", "damaged", damage=(Damage("hollow", "x"), Damage("hollow", "y"), Damage("log-gap", "z"))),
    ]
    found = _sums(tables)
    assert found.tables == {"sound": 3, "unreadable": 1, "damaged": 2}
    assert found.damage == {"hollow": 2, "log-gap": 1}
    assert (found.files, found.bytes, found.small_files, found.dead_bytes, found.unnamed_files) == (7, 300, 3, 21, 3)
    assert [one.path for one in found.worst["damaged"]] == ["d2", "d1"]
    assert [one.detail for one in found.worst["unreadable"]] == ["403"]
    assert found.worst["damaged"][0].damage == {"hollow": 2, "log-gap": 1}
    assert found.looked_at == _AT
