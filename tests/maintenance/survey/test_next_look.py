"""The next look costs what changed, sees what a quick one would not, and says what is gone, once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import PricesSettings
from lakewarden.cli.main import main as run
from lakewarden.errors import LakewardenError
from lakewarden.maintenance.survey.next_look import watch
from lakewarden.maintenance.survey.table_survey import TableSurvey
from lakewarden.storage.meter import metered
from tests.delta.hand_written import HandWritten
from tests.fixtures.bucket import BucketPath, copy_tree, remove_tree
from tests.fixtures.lakes import lake_fixture
from tests.fixtures.minio import MinioServer

lake = lake_fixture()


def _sound(path: Path) -> HandWritten:
    table = HandWritten(path)
    table.begin(table.file("1.parquet", [1]), table.file("2.parquet", [2]))
    return table


def _changes(found: list[TableSurvey]) -> dict[str, tuple[str, str]]:
    return {one.path.rpartition("/")[2]: (one.change, one.verdict) for one in found}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three sound tables."""
    for name in "abc":
        _sound(tmp_path / "others" / name)
    return tmp_path / "others"


def test_what_changed_since_the_last_look(lake: Lakehouse, place: Path) -> None:
    assert _changes(lake.survey(str(place))) == dict.fromkeys("abc", ("", "sound")), "there is no look before"
    assert _changes(lake.survey(str(place))) == dict.fromkeys("abc", ("", "sound"))
    (place / "a" / "1.parquet").unlink()
    shutil.rmtree(place / "b")
    _sound(place / "d")
    found = lake.survey(f"{place}/")
    assert _changes(found) == {"a": ("changed", "damaged"), "b": ("gone", "sound"), "c": ("", "sound"), "d": ("new", "sound")}
    assert [one.path for one in found] == [str(place / name) for name in "acdb"], "the worst first, what is gone last"
    assert _changes(lake.survey(str(place))) == {"a": ("", "damaged"), "c": ("", "sound"), "d": ("", "sound")}


def test_what_is_as_it_was_is_told_as_it_was(lake: Lakehouse, place: Path) -> None:
    (place / "a" / "1.parquet").unlink()
    first = lake.survey(str(place))
    assert lake.survey(str(place)) == first == lake.survey(str(place), keep=False)


def _same_size_and_time(path: Path, text: str, *, new_file: bool) -> None:
    before = path.stat()
    assert len(text.encode()) == before.st_size
    if new_file:
        beside = path.with_name("beside")
        beside.write_text(text)
        beside.replace(path)
    else:
        path.write_text(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        return
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("new_file", [True, False], ids=["inode", "time"])
def test_a_commit_that_was_overwritten_in_place_on_a_disk(lake: Lakehouse, place: Path, new_file: bool) -> None:
    lake.survey(str(place))
    commit = place / "b" / "_delta_log" / f"{0:020}.json"
    _same_size_and_time(commit, commit.read_text().replace("2.parquet", "3.parquet"), new_file=new_file)
    assert _changes(lake.survey(str(place)))["b"] == ("changed", "damaged")


def test_other_prices_are_counted_with_at_once(lake: Lakehouse, place: Path) -> None:
    lake.survey(str(place))
    found = lake.survey(str(place), prices=PricesSettings(read_requests=9.0))
    assert _changes(found) == dict.fromkeys("abc", ("", "sound")), "the tables are as they were"
    assert _changes(lake.survey(str(place), deep=True)) == dict.fromkeys("abc", ("", "sound"))


def test_a_deep_look_reads_everything_and_what_it_finds_stays(lake: Lakehouse, place: Path) -> None:
    lake.survey(str(place))
    file = place / "c" / "1.parquet"
    before = file.stat()
    file.write_bytes(b"\0" * before.st_size)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _changes(lake.survey(str(place)))["c"] == ("", "sound"), "no listing shows it"
    assert _changes(lake.survey(str(place), deep=True))["c"] == ("changed", "damaged")
    assert _changes(lake.survey(str(place)))["c"] == ("", "damaged")


def test_places_are_kept_apart(lake: Lakehouse, place: Path) -> None:
    lake.survey(str(place / "a"), str(place / "b"))
    assert _changes(lake.survey(str(place / "b"))) == {"b": ("", "sound")}
    assert _changes(lake.survey(str(place))) == dict.fromkeys("abc", ("", "sound"))
    assert sum(one.total for one in lake.fleet().surveys) == 5


def test_a_place_that_is_away_is_not_gone(lake: Lakehouse, place: Path) -> None:
    lake.survey(str(place))
    shutil.move(place, place.with_name("away"))
    with pytest.raises(LakewardenError):
        lake.survey(str(place))
    shutil.move(place.with_name("away"), place)
    assert _changes(lake.survey(str(place))) == dict.fromkeys("abc", ("", "sound"))


def test_a_directory_without_tables_any_more_has_lost_them(lake: Lakehouse, place: Path) -> None:
    lake.survey(str(place))
    for name in "abc":
        shutil.rmtree(place / name)
    assert _changes(lake.survey(str(place))) == dict.fromkeys("abc", ("gone", "sound"))
    assert lake.survey(str(place)) == []


@pytest.fixture
def bucket(minio: MinioServer, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BucketPath:
    """Ten sound tables of ten commits in a bucket; the process has its keys."""
    for name, value in minio.environment.items():
        monkeypatch.setenv(name, value)
    table = _sound(tmp_path / "t")
    for version in range(1, 10):
        table.commit(version, table.file(f"c{version}.parquet", [version]))
    place = BucketPath(minio.prefix_for(request.node.nodeid))
    for number in range(10):
        copy_tree(table.path, place / f"t{number}")
    return place


def test_the_second_look_costs_nothing_for_what_is_unchanged(lake: Lakehouse, bucket: BucketPath) -> None:
    assert _changes(lake.survey(str(bucket))) == {f"t{number}": ("", "sound") for number in range(10)}
    with metered() as second:
        assert {change for change, _ in _changes(lake.survey(str(bucket))).values()} == {""}
    assert second.total().keys() <= {"LIST", "bytes_in"}
    assert second.total()["LIST"] <= 2, second.total()

    # a commit, one that is overwritten in place at equal size, a live file that vanishes, a table that goes
    new = json.dumps({"commitInfo": {"timestamp": 1, "operation": "X"}})
    (bucket / "t1" / "_delta_log" / f"{10:020}.json").write_text(new)
    overwritten = bucket / "t2" / "_delta_log" / f"{9:020}.json"
    overwritten.write_text(overwritten.read_text().replace("c9.parquet", "d9.parquet"))
    (bucket / "t3" / "1.parquet").unlink()
    remove_tree(bucket / "t4")
    with metered() as third:
        found = _changes(lake.survey(str(bucket)))
    assert {name: seen for name, seen in found.items() if seen[0]} == {
        "t1": ("changed", "sound"),
        "t2": ("changed", "damaged"),
        "t3": ("changed", "damaged"),
        "t4": ("gone", "sound"),
    }
    # the commit that came, the one that was overwritten; two suspects are looked at again: listings and a byte each
    assert third.total()["GET"] == 1 + 1 + 2, third.total()
    assert third.total()["LIST"] <= second.total()["LIST"] + 4, third.total()
    assert _changes(lake.survey(str(bucket))).keys() == {f"t{number}" for number in (0, 1, 2, 3, 5, 6, 7, 8, 9)}


def test_an_emptied_prefix_of_a_bucket_has_lost_its_tables(lake: Lakehouse, bucket: BucketPath) -> None:
    place = bucket / "t1"
    lake.survey(str(place))
    remove_tree(place)
    assert _changes(lake.survey(str(place))) == {"t1": ("gone", "sound")}
    with pytest.raises(LakewardenError, match="there is nothing"):
        lake.survey(str(place))


def test_looks_begin_each_interval() -> None:
    now, waits = [0.0], list[float]()
    took = iter([1.0, 7.0, 2.0, 0.0])

    def look(number: int) -> int:
        now[0] += next(took)
        return number

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    looks = watch(look, 5.0, wait, lambda: now[0])
    assert [next(looks) for _ in range(4)] == [0, 1, 2, 3]
    assert waits == [4.0, 0.0, 3.0]


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("ending", ["damaged", "sound"])
def test_watch_tells_what_changed_until_it_is_stopped(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], keeps: bool, ending: str
) -> None:
    monkeypatch.chdir(tmp_path)
    waited = list[float]()

    def pause(seconds: float) -> None:
        waited.append(seconds)
        match len(waited):
            case 2:
                (place / "a" / "1.parquet").rename(place / "a" / "9.parquet")
            case 3 if ending == "sound":
                (place / "a" / "9.parquet").rename(place / "a" / "1.parquet")
            case 5:
                raise KeyboardInterrupt

    monkeypatch.setattr("lakewarden.cli.survey.pause", pause)
    kept = ["--warehouse", "w", "--create", "--keep"] if keeps else []
    with pytest.raises(SystemExit) as ended:
        run(["survey", str(place), "--watch", "0.5", "--format", "json", *kept])
    assert int(str(ended.value.code or 0)) == (ending == "damaged")
    printed = capsys.readouterr()
    looks = [[(one["path"][-1], one["change"], one["verdict"]) for one in json.loads(line)] for line in printed.out.splitlines()]
    healed = [[("a", "changed", "sound")]] if ending == "sound" else [[]]
    assert looks == [[(name, "", "sound") for name in "abc"], [], [("a", "changed", "damaged")], *healed, []]
    assert max(waited) <= 0.5
    assert (tmp_path / "w").exists() is keeps


def test_changes_stand_on_top(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def look() -> str:
        with pytest.raises(SystemExit):
            run(["survey", str(place), "--warehouse", "w", "--create", "--keep"])
        return capsys.readouterr().out

    assert look().startswith("path ")
    assert look().startswith("nothing changed since the last look\n\n")
    (place / "c" / "1.parquet").unlink()
    shutil.rmtree(place / "a")
    top, _, whole = look().partition("\n\n")
    assert [line.split()[:3] for line in top.splitlines()[1:]] == [
        ["changed", "sound", str(place / "c")],
        ["gone", "sound", str(place / "a")],
    ]
    assert str(place / "a") not in whole
    assert str(place / "b") in whole


def test_keep_needs_a_warehouse_that_is_there(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        run(["survey", str(place), "--warehouse", "nowhere", "--keep"])
    assert capsys.readouterr().err.startswith("NOT_FOUND")
    assert not (tmp_path / "nowhere").exists()
