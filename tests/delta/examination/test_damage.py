"""Each damage, made by hand, is found by its name and no other; a whole table has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.delta.examination.kinds import KINDS
from tests.delta.examination.damaged import DAMAGES, PART, Damage, _days, checkpoint, log, look, whole, with_checksum
from tests.delta.hand_written import HandWritten, add, bitmap, inline, metadata, protocol, remove

NOT_DAMAGED = {"history-gap": "sound", "unknown-feature": "unreadable", "unknown-action": "unreadable"}


@pytest.fixture
def table(tmp_path: Path) -> HandWritten:
    made = HandWritten(tmp_path / "t")
    whole(made)
    return made


def test_each_kind_has_its_cases() -> None:
    assert {kind for kind, _, _ in DAMAGES} == {*KINDS}
    assert len(DAMAGES) >= 24


@pytest.mark.parametrize("deep", [False, True])
def test_a_whole_table_has_none(table: HandWritten, deep: bool) -> None:
    found = look(table, deep=deep)
    assert (found.notes, found.verdict, found.error) == ((), "sound", "")


@pytest.mark.parametrize(("kind", "how", "damage"), DAMAGES, ids=[f"{kind}: {how}" for kind, how, _ in DAMAGES])
def test_a_damage_is_found_by_its_name(table: HandWritten, kind: str, how: str, damage: Damage) -> None:
    damage(table)
    found = look(table)
    assert {note.kind for note in found.notes} == {kind}, (how, found.notes)
    assert found.verdict == NOT_DAMAGED.get(kind, "damaged")
    assert bool(found.error) is (found.state is None)


def test_a_protocol_of_features_lists_them(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(table.file("1.parquet", [1]))
    table.commit(1, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7}})
    assert [(note.kind, note.detail) for note in look(table).notes] == [
        ("unknown-feature", "writer version 7 without its list of features")
    ]


def test_a_file_without_partition_values_where_there_are_no_partitions(tmp_path: Path) -> None:
    """Spark reads it; Delta's kernel, and so delta-rs, does not open the table."""
    table = HandWritten(tmp_path / "t")
    added = table.file("1.parquet", [1])
    table.begin({"add": {**added["add"], "partitionValues": None}})
    assert [note.kind for note in look(table).notes] == ["partition-value-nulled"]


@pytest.mark.parametrize("lost", ["protocol", "metaData"])
def test_a_first_commit_that_lost_a_line_differs_from_its_checksum(tmp_path: Path, lost: str) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(table.file("1.parquet", [1]))
    with_checksum(table, 0)
    path = table.path / log(0)
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if f'"{lost}"' not in line))
    found = look(table)
    assert ([note.kind for note in found.notes], found.verdict, found.state) == (["torn-commit"], "damaged", None)


@pytest.mark.parametrize("end", [b"\r", b"\r\n", b"\r\r"])
def test_lines_may_end_as_readers_end_them(table: HandWritten, end: bytes) -> None:
    for path in table.log.glob("*.json"):
        path.write_bytes(path.read_bytes().replace(b"\n", end))
    assert look(table).verdict == "sound"


def test_a_schema_that_is_cut_is_torn(table: HandWritten) -> None:
    said = metadata(PART, ["p"])
    table.commit(4, {"metaData": {**said["metaData"], "schemaString": '{"type":"struct","fie'}})
    found = look(table)
    assert ([note.kind for note in found.notes], found.verdict, found.error) == (
        ["torn-commit"],
        "damaged",
        "the table has no schema",
    )


def test_what_no_name_fits_is_unreadable(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.commit(0, metadata())
    found = look(table)
    assert (found.verdict, found.state, found.notes) == ("unreadable", None, ())
    assert "lacks the protocol" in found.error


def test_a_table_that_is_partitioned_by_no_column_is_unreadable(table: HandWritten) -> None:
    table.commit(4, metadata(PART, ["P"]))
    assert look(table).verdict == "sound", "names of columns have no case"
    table.commit(5, metadata(PART, ["q"]))
    found = look(table)
    assert (found.verdict, found.notes, found.error) == ("unreadable", (), "it is partitioned by q, which is no column")


def test_the_version_below_a_damage_is_shown(table: HandWritten) -> None:
    """Behind a torn commit nothing opens, whatever follows it."""
    table.commit(4, {"commitInfo": {}})
    table.commit(5, {"commitInfo": {}})
    (table.path / log(4)).write_text("{")
    found = look(table)
    assert found.state is not None
    assert (found.state.version, [note.versions for note in found.notes]) == (3, [(4,)])
    (table.path / log(4)).unlink()
    found = look(table)
    assert found.state is not None
    assert (found.state.version, [(note.kind, note.versions) for note in found.notes]) == (3, [("log-gap", (4,))])


def test_a_commit_that_its_catalog_has_not_published_is_not_lost(table: HandWritten) -> None:
    staged = table.log / "_staged_commits" / f"{4:020d}.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    staged.parent.mkdir()
    for path in (staged, table.log / f"{4:020d}.crc"):
        path.write_text("{}")
    assert look(table).notes == ()


def test_a_checksum_of_no_version_that_can_be_tells_of_no_loss(table: HandWritten) -> None:
    (table.log / f"{10**19}.crc").write_text("{}")
    assert look(table).notes == ()


def test_several_damages_are_all_named(table: HandWritten) -> None:
    (table.path / "p=b/3.parquet").unlink()
    checkpoint(table).write_bytes(b"")
    table.commit(4, remove("p=y/1.parquet"), add("/elsewhere/x.parquet", partition={"p": "a"}))
    table.commit(6, {"commitInfo": {}})
    found = look(table)
    assert {note.kind for note in found.notes} == {
        "hollow",
        "checkpoint-unreadable",
        "removes-unknown",
        "outside-path",
        "log-gap",
    }
    assert (found.verdict, found.state and found.state.version) == ("damaged", 4)


def test_files_of_a_clone_are_noted_and_no_damage(table: HandWritten) -> None:
    table.commit(4, add("s3://other/table/x.parquet", partition={"p": "a"}), add("/other/y.parquet", partition={"p": "a"}))
    found = look(table)
    assert ([(note.kind, note.damaging) for note in found.notes], found.verdict) == ([("outside-path", False)], "sound")


def test_a_link_that_leads_out_is_named(table: HandWritten, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.parquet").write_bytes(b"x")
    (table.path / "p=a/link.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    table.commit(4, add("p=a/link.parquet", partition={"p": "a"}, size=1))
    found = look(table)
    assert {note.kind for note in found.notes} <= {"outside-path"}


def test_a_catalog_decides_what_its_table_has(table: HandWritten) -> None:
    table.commit(4, protocol("deletionVectors", "catalogManaged"))
    (table.path / "p=b/3.parquet").unlink()
    assert look(table).verdict == "catalog"


def test_bytes_that_changed_at_equal_size_show_in_a_deep_look(table: HandWritten) -> None:
    path = table.path / "p=b/3.parquet"
    path.write_bytes(bytes(path.stat().st_size))
    assert look(table).verdict == "sound"
    found = look(table, deep=True)
    assert ([note.kind for note in found.notes], found.verdict) == (["size-differs"], "damaged")


def test_a_vector_that_is_garbled_shows_in_a_deep_look(table: HandWritten) -> None:
    (path,) = table.path.glob("*.bin")
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert look(table).verdict == "sound"
    assert [note.kind for note in look(table, deep=True).notes] == ["vector-short"]


def test_sound_oddities_are_no_damage(table: HandWritten) -> None:
    """Directories that differ by case; an absolute path inside; a file that was stored unescaped; a partition for NULL."""
    table.commit(
        4,
        table.file("p=B/3.parquet", [4], partition={"p": "B"}),
        {"add": {**table.file("p=x/5.parquet", [1], partition={"p": "x"})["add"], "path": f"file:{table.path}/p=x/5.parquet"}},
        table.file("p=%41/6.parquet", [1], partition={"p": "%41"}),
        table.file("p=__HIVE_DEFAULT_PARTITION__/7.parquet", [1], partition={"p": None}),
        table.file("8.parquet", [1], partition={"p": None}),
    )
    found = look(table)
    assert (found.notes, found.verdict, found.figures.unnamed_files) == ((), "sound", 0)


def test_values_that_fit_their_columns_are_no_damage(table: HandWritten) -> None:
    """A day, a negative number, NULL; a vector in the log; an add that is written again with other statistics."""
    _days(table)
    one = table.file("ab/9.parquet", [1, 2, 3], partition={"day": "2026-02-01", "n": "0"}, vector=inline(bitmap([2]), 1))
    for version, rows in ((7, 3), (8, None)):
        table.commit(version, {"add": {**one["add"], "stats": f'{{"numRecords":{rows}}}' if rows else None}})
    found = look(table, deep=True)
    assert (found.notes, found.verdict) == ((), "sound")


def test_figures(table: HandWritten) -> None:
    for name in ("part-9.parquet", "_hidden/a.parquet", ".x.parquet", "readme.csv", "_change_data/c.parquet", "_p=1/d.parquet"):
        path = table.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"12345")
    table.commit(4, {"commitInfo": {"engineInfo": "A/1"}})
    figures = look(table).figures
    sizes = {name: (table.path / name).stat().st_size for name in ("p=a/1.parquet", "p=b/3.parquet", "p=b/2.parquet")}
    assert (figures.files, figures.bytes, figures.small_files, figures.vector_rows) == (
        2,
        sizes["p=a/1.parquet"] + sizes["p=b/3.parquet"],
        2,
        1,
    )
    assert (figures.dead_bytes, figures.unnamed_files, figures.alien_files) == (sizes["p=b/2.parquet"] + 10, 2, 1)
    assert (figures.commits_since_checkpoint, figures.oldest_version, figures.tombstones) == (2, 0, 1)
    assert figures.writers == {"A/1": 1, "": 4}
    found = [*table.log.iterdir()]
    assert (figures.log_objects, figures.log_bytes) == (len(found), sum(each.stat().st_size for each in found))
