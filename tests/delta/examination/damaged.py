"""A sound table with a checkpoint, partitions and a vector, and all ways in which copies of it are damaged."""

from __future__ import annotations

import atexit
import json
import shutil
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from lakewarden.delta.examination.examination import Examination, examine
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.replay.log_state import replay
from lakewarden.delta.replay.vectors import z85
from lakewarden.storage.open import open_store
from tests.delta.hand_written import HandWritten, Json, add, bitmap, inline, metadata, protocol, remove

PART: list[Json] = [
    {"name": "p", "type": "string", "nullable": True, "metadata": {}},
    {"name": "id", "type": "long", "nullable": True, "metadata": {}},
]
DIGITS = "ab^-aqEH.-t@S}K{vb[*"
"""A UUID in base 85."""
VECTOR = f"deletion_vector_{uuid.UUID(bytes=z85(DIGITS))}.bin"
ANOTHER: Json = {"storageType": "u", "pathOrInlineDv": DIGITS[::-1], "offset": 1, "sizeInBytes": 40, "cardinality": 1}
DOMAIN: Json = {"domain": "own", "configuration": "{}", "removed": False}
CRC = f"_delta_log/{3:020d}.crc"
LAST = "_delta_log/_last_checkpoint"


def log(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def checkpoint(table: HandWritten, version: int = 2) -> Path:
    return table.log / f"{version:020d}.checkpoint.parquet"


def whole(table: HandWritten) -> None:
    """Four versions, of which the third has a checkpoint; partitions, a vector, and a file that is gone."""
    shutil.copytree(_prepared(), table.path, dirs_exist_ok=True)


@cache
def _prepared() -> Path:
    """That table, to be copied: hundreds of tests begin with it."""
    place = Path(mkdtemp(prefix="whole-"))
    atexit.register(shutil.rmtree, place)
    table = HandWritten(place / "t")
    size = table.vector(VECTOR, bitmap([0]))
    vector = {"storageType": "u", "pathOrInlineDv": DIGITS, "offset": 1, "sizeInBytes": size, "cardinality": 1}
    first = table.file("p=a/1.parquet", [1, 2], partition={"p": "a"})
    second = table.file("p=b/2.parquet", [3], partition={"p": "b"})
    table.begin(first, second, fields=PART, partition_by=["p"], features=("deletionVectors",))
    table.commit(1, remove("p=b/2.parquet"), table.file("p=b/3.parquet", [4], partition={"p": "b"}))
    table.commit(2, {"commitInfo": {"operation": "X"}})
    DeltaTable(table.path).create_checkpoint()
    more = {**first["add"], "deletionVector": vector}
    table.commit(3, remove("p=a/1.parquet"), {"add": more})
    return table.path


def with_checksum(table: HandWritten, version: int = 3) -> dict[str, Any]:
    """Writes the checksum of a version, as Spark does, and returns it."""
    state = replay(table.location, version)
    assert state is not None
    lines = [json.loads(line) for each in range(version + 1) for line in (table.path / log(each)).read_text().splitlines()]
    live = {str(key) for key in state.files.column("key").to_pylist()}
    files = {line["add"]["path"]: line["add"] for line in lines if "add" in line and line["add"]["path"] in live}
    said: dict[str, Any] = {
        "txnId": "x",
        "tableSizeBytes": sum(each["size"] for each in files.values()),
        "numFiles": len(files),
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": next(line["metaData"] for line in lines if "metaData" in line),
        "protocol": next(line["protocol"] for line in lines if "protocol" in line),
        "allFiles": [*files.values()],
    }
    (table.path / log(version)).with_suffix(".crc").write_text(json.dumps(said))
    return said


def look(table: HandWritten, *, deep: bool = False) -> Examination:
    return examine(table.location, TableListing.of(open_store(table.location).list("")), deep=deep)


def _append(table: HandWritten, version: int, **action: object) -> None:
    with (table.path / log(version)).open("a") as file:
        file.write(f"{json.dumps(action)}\n")


def _cut(path: Path, share: float = 0.9) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def _without_an_add(table: HandWritten) -> None:
    _lose(table, 1, "add")


def _checkpoint_without_a_file(table: HandWritten) -> None:
    found = pq.read_table(checkpoint(table))
    keep = [row is None or row["path"] != "p=b/3.parquet" for row in found.column("add").to_pylist()]
    pq.write_table(found.filter(pa.array(keep)), checkpoint(table))


def _checkpoint_with(table: HandWritten, **more: object) -> None:
    """Each live file of the checkpoint, with other values."""
    found = pq.read_table(checkpoint(table))
    column = found.column("add")
    rows = [row and {**row, **more} for row in column.to_pylist()]
    place = found.schema.get_field_index("add")
    pq.write_table(found.set_column(place, "add", pa.array(rows, column.type)), checkpoint(table))


def _checkpoint_by_another_partition(table: HandWritten) -> None:
    (table.path / log(0)).write_text(
        (table.path / log(0)).read_text().replace('"partitionColumns": ["p"]', '"partitionColumns": []')
    )


def _lost_first_commits(table: HandWritten) -> None:
    for version in range(3):
        (table.path / log(version)).unlink()
    checkpoint(table).unlink()
    (table.path / LAST).unlink()


def _in_parts(table: HandWritten, lost: int) -> None:
    """The checkpoint in three parts, of which one is lost."""
    rows = pq.read_table(checkpoint(table))
    checkpoint(table).unlink()
    (table.path / LAST).unlink()
    for number in range(1, 4):
        part = table.log / f"{2:020d}.checkpoint.{number:010d}.{3:010d}.parquet"
        if number != lost:
            pq.write_table(rows.slice((number - 1) * 2, 2 if number < 3 else None), part)


def _in_json(table: HandWritten, cut: Callable[[str], str]) -> None:
    """A checkpoint by a UUID, in JSON, with its files in a sidecar."""
    adds = [row for row in pq.read_table(checkpoint(table)).column("add").to_pylist() if row]
    kind = pa.struct([("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string())), ("size", pa.int64())])
    (table.log / "_sidecars").mkdir()
    rows = [{name: row[name] for name in ("path", "partitionValues", "size")} for row in adds]
    pq.write_table(pa.table({"add": pa.array(rows, kind)}), table.log / "_sidecars" / "s.parquet")
    checkpoint(table).unlink()
    (table.path / LAST).unlink()
    lines = (
        protocol("deletionVectors", "v2Checkpoint"),
        metadata(PART, ["p"]),
        {"checkpointMetadata": {"version": 2}},
        {"sidecar": {"path": "s.parquet", "sizeInBytes": 1, "modificationTime": 1}},
    )
    text = "\n".join(json.dumps(line) for line in lines)
    (table.log / f"{2:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json").write_text(cut(text))
    for version in range(2):  # else the commits, which have another protocol, contradict it
        (table.path / log(version)).unlink()


def _json_without_sidecar(table: HandWritten) -> None:
    _in_json(table, lambda text: text)
    (table.log / "_sidecars" / "s.parquet").unlink()


def _with_vector(table: HandWritten, vector: Json, path: str = "p=d/5.parquet") -> None:
    table.commit(4, table.file(path, [1, 2, 3], partition={"p": "d"}, vector=vector))


def _short_inline(table: HandWritten) -> None:
    vector = inline(bitmap([0]), 1)
    _with_vector(table, {**vector, "sizeInBytes": vector["sizeInBytes"] + 8})


def _absolute_vector(table: HandWritten) -> None:
    place = f"file://{table.path}/gone.bin"
    _with_vector(table, {"storageType": "p", "pathOrInlineDv": place, "offset": 1, "sizeInBytes": 40, "cardinality": 1})


def _prefixed_vector(table: HandWritten) -> None:
    _with_vector(table, {**ANOTHER, "pathOrInlineDv": f"pre{DIGITS}"})


def _offset_beyond(table: HandWritten) -> None:
    size = (table.path / VECTOR).stat().st_size
    _with_vector(table, {**ANOTHER, "pathOrInlineDv": DIGITS, "offset": size})


def _twice(table: HandWritten) -> None:
    table.commit(4, table.file("p=a/1.parquet", [1, 2], partition={"p": "a"}))


def _gap_behind_the_checkpoint(table: HandWritten) -> None:
    table.commit(4, {"commitInfo": {}})
    (table.path / log(3)).unlink()


def _lost_newest(table: HandWritten, left: str) -> None:
    (table.path / log(3)).rename(table.log / left)


def _twice_in_one_commit(table: HandWritten) -> None:
    one = table.file("p=d/5.parquet", [1, 2, 3], partition={"p": "d"})
    table.commit(4, one, {"add": {**one["add"], "deletionVector": inline(bitmap([0]), 1)}})


def _overwritten(table: HandWritten) -> None:
    """A third writer follows a commit of ours that another one replaced."""
    table.commit(4, table.file("p=e/mine.parquet", [1], partition={"p": "e"}))
    table.commit(5, remove("p=e/mine.parquet"), table.file("p=e/next.parquet", [1], partition={"p": "e"}))
    table.commit(4, table.file("p=e/theirs.parquet", [1], partition={"p": "e"}))


def _escaped_null(table: HandWritten) -> None:
    table.file("p=a%2Fb c/4.parquet", [1])
    size = (table.path / "p=a%2Fb c/4.parquet").stat().st_size
    table.commit(4, add("p=a%252Fb%20c/4.parquet", size=size, partition={"p": None}))


def _two_checkpoints_cut(table: HandWritten) -> None:
    shutil.copy(checkpoint(table), checkpoint(table, 1))
    for version in (1, 2):
        _cut(checkpoint(table, version))


def _versions(reader: int, writer: int) -> Json:
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer}}


def _lost_line(table: HandWritten, version: int) -> None:
    """The last line of a commit is lost. The checksum of the newest version is in its oldest form."""
    said = with_checksum(table)
    (table.path / CRC).write_text(json.dumps({name: said[name] for name in ("numFiles", "tableSizeBytes")}))
    lines = (table.path / log(version)).read_text().splitlines(keepends=True)
    (table.path / log(version)).write_text("".join(lines[:-1]))


def _lost_line_below(table: HandWritten) -> None:
    checkpoint(table).unlink()
    (table.path / LAST).unlink()
    _lost_line(table, 1)


def _lost_metadata(table: HandWritten) -> None:
    table.commit(3, {"commitInfo": {}}, metadata([*PART, {**PART[1], "name": "more"}], ["p"]))
    said = with_checksum(table)
    last = json.loads((table.path / log(3)).read_text().splitlines()[-1])
    (table.path / CRC).write_text(json.dumps({**said, "metadata": last["metaData"]}))
    table.commit(3, {"commitInfo": {}})


def _lost_vector(table: HandWritten) -> None:
    """The commit that deletes a row by a vector: as many files remain, of as many bytes. The checksum does not list them."""
    said = with_checksum(table)
    (table.path / CRC).write_text(json.dumps({**said, "allFiles": None, "numDeletedRecordsOpt": 1}))
    table.commit(3, {"commitInfo": {}})


def _in_a_compaction(table: HandWritten, text: str | None = None) -> None:
    """Two commits behind the checkpoint as one; with another text beside them, else in their place."""
    table.commit(4, {"commitInfo": {}})
    place = table.log / f"{3:020d}.{4:020d}.compacted.json"
    place.write_text((table.path / log(3)).read_text() if text is None else text)
    if text is None:
        (table.path / log(3)).unlink()


def _checkpoint_without_its_commit(table: HandWritten) -> None:
    DeltaTable(table.path).create_checkpoint()
    (table.path / log(3)).unlink()


def _vector_with(table: HandWritten, **more: object) -> None:
    """A vector of a file of three rows, with other numbers than its own."""
    size = (table.path / VECTOR).stat().st_size - 9
    vector = {"storageType": "u", "pathOrInlineDv": DIGITS, "offset": 1, "sizeInBytes": size, "cardinality": 1, **more}
    _of_three_rows(table, deletionVector=vector)


def _of_three_rows(table: HandWritten, **more: object) -> None:
    said = table.file("p=d/5.parquet", [1, 2, 3], partition={"p": "d"})["add"]
    table.commit(4, {"add": {**said, "stats": '{"numRecords":3}', **more}})


def _older_checkpoint(table: HandWritten, damage: Callable[[Path], object]) -> None:
    DeltaTable(table.path).create_checkpoint()
    damage(checkpoint(table))


def _schema_cut_and_mended(table: HandWritten) -> None:
    said = metadata(PART, ["p"])
    table.commit(4, {"metaData": {**said["metaData"], "schemaString": '{"type":"struct","fie'}})
    table.commit(5, said)


def _another_spelling_than_the_checkpoint(table: HandWritten) -> None:
    table.commit(4, {"add": {**table.file("p=b/3.parquet", [4], partition={"p": "b"})["add"], "path": "p=b/%33.parquet"}})


def _listed(readers: list[str], writers: list[str]) -> Json:
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": readers, "writerFeatures": writers}}


def _enabling(table: HandWritten, feature: str, setting: str) -> None:
    """A feature, of which the actions lack what it requires."""
    said = protocol("deletionVectors")["protocol"]
    asked = {**said, "writerFeatures": [*said["writerFeatures"], feature]}
    table.commit(4, {"commitInfo": {"operation": "X"}}, {"protocol": asked}, metadata(PART, ["p"], {setting: "true"}))


def _below_the_first_commits(table: HandWritten, damage: Callable[[HandWritten], object]) -> None:
    """Between two checkpoints, of a log whose first commits a cleanup has removed."""
    table.commit(4, table.file("p=c/4.parquet", [1], partition={"p": "c"}))
    DeltaTable(table.path).create_checkpoint()
    for version in (0, 1):
        (table.path / log(version)).unlink()
    damage(table)


def _checkpoint_saying(table: HandWritten, **more: object) -> None:
    """Other metadata than the commits."""
    found = pq.read_table(checkpoint(table))
    column, place = found.column("metaData"), found.schema.get_field_index("metaData")
    rows = [row and {**row, **more} for row in column.to_pylist()]
    pq.write_table(found.set_column(place, "metaData", pa.array(rows, column.type)), checkpoint(table))


def _pointer_saying(table: HandWritten, **more: object) -> None:
    said = json.loads((table.path / LAST).read_text())
    (table.path / LAST).write_text(json.dumps({**said, **more}))


def _days(table: HandWritten) -> None:
    """Partitions by a date and a number, below a directory that names neither."""
    kinds = [{**PART[0], "name": "day", "type": "date"}, {**PART[0], "name": "n", "type": "integer"}, PART[1]]
    for version, values in enumerate(({"day": "2026-01-31", "n": "-4"}, {"day": None, "n": "7"}), 5):
        table.commit(version, table.file(f"ab/{version}.parquet", [1], partition=values))
    gone = [remove("p=b/3.parquet"), remove("p=a/1.parquet", vector=json.loads(_last_add(table))["add"]["deletionVector"])]
    table.commit(4, metadata(kinds, ["day", "n"]), *gone)


def _last_add(table: HandWritten) -> str:
    return (table.path / log(3)).read_text().splitlines()[-1]


def _day(table: HandWritten, **values: str | None) -> None:
    _days(table)
    table.commit(7, table.file("ab/7.parquet", [1], partition=values))


def _lose(table: HandWritten, version: int, action: str) -> None:
    """A line of a commit."""
    commit = table.path / log(version)
    commit.write_text("".join(line for line in commit.read_text().splitlines(keepends=True) if f'"{action}"' not in line))


def _another_partition(table: HandWritten) -> None:
    """By the newest commit, of a file that its checksum has in its own."""
    table.commit(4, table.file("ab/5.parquet", [1], partition={"p": "d"}))
    with_checksum(table, 4)
    (table.path / log(4)).write_text((table.path / log(4)).read_text().replace('"p": "d"', '"p": "e"'))


def _by_another_spelling(table: HandWritten) -> None:
    added = table.file("p=d/5.parquet", [1], partition={"p": "d"})
    table.commit(4, added)
    table.commit(5, {"add": {**added["add"], "path": "p=d/%35.parquet"}})


Damage = Callable[[HandWritten], object]
DAMAGES: list[tuple[str, str, Damage]] = [
    ("hollow", "a file", lambda table: (table.path / "p=b/3.parquet").unlink()),
    ("hollow", "a directory", lambda table: shutil.rmtree(table.path / "p=a")),
    ("hollow", "a name in another case", lambda table: (table.path / "p=b/3.parquet").rename(table.path / "p=b/3.PARQUET")),
    ("size-differs", "shorter", lambda table: _cut(table.path / "p=b/3.parquet")),
    ("size-differs", "empty", lambda table: (table.path / "p=b/3.parquet").write_bytes(b"")),
    ("size-differs", "longer", lambda table: (table.path / "p=b/3.parquet").write_bytes(b"x" * 9999)),
    ("vector-gone", "by a UUID", lambda table: (table.path / VECTOR).unlink()),
    ("vector-gone", "by a UUID below a prefix", _prefixed_vector),
    ("vector-gone", "by an absolute path", _absolute_vector),
    ("vector-short", "cut", lambda table: _cut(table.path / VECTOR)),
    ("vector-short", "empty", lambda table: (table.path / VECTOR).write_bytes(b"")),
    ("vector-short", "an offset beyond its end", _offset_beyond),
    ("vector-short", "in the log", _short_inline),
    *(
        ("vector-short", f"an offset of {offset}", lambda table, n=offset: _vector_with(table, offset=n))
        for offset in (-1, 0, 1 << 62)
    ),
    ("vector-short", "a size below zero", lambda table: _vector_with(table, sizeInBytes=-5)),
    ("vector-short", "no bytes", lambda table: _vector_with(table, sizeInBytes=0)),
    ("vector-short", "a sum beyond 64 bits", lambda table: _vector_with(table, offset=1 << 62, sizeInBytes=1 << 62)),
    ("vector-short", "fewer rows than none", lambda table: _vector_with(table, cardinality=-1)),
    ("vector-short", "more rows than its file", lambda table: _vector_with(table, cardinality=4)),
    ("vector-short", "other rows, in the log", lambda table: _of_three_rows(table, deletionVector=inline(bitmap([0]), 2))),
    (
        "vector-short",
        "a row beyond its file, in the log",
        lambda table: _of_three_rows(table, deletionVector=inline(bitmap([3]), 1)),
    ),
    ("size-differs", "no size", lambda table: _of_three_rows(table, size=None)),
    ("size-differs", "a size below zero", lambda table: _of_three_rows(table, size=-1)),
    ("size-differs", "a size of nothing", lambda table: _of_three_rows(table, size=0)),
    ("torn-commit", "cut", lambda table: (table.path / log(4)).write_text('{"add":{"path"')),
    ("torn-commit", "empty", lambda table: (table.path / log(4)).write_text("")),
    ("torn-commit", "no text", lambda table: (table.path / log(4)).write_bytes(b"\xff\xfe\x00")),
    ("torn-commit", "no UTF-8", lambda table: (table.path / log(4)).write_bytes(b'{"commitInfo":{"engineInfo":"\xff"}}')),
    ("torn-commit", "no action", lambda table: (table.path / log(4)).write_text('{"add":{"size":1}}')),
    ("torn-commit", "a size of no 64 bits", lambda table: table.commit(4, add("p=a/9.parquet", 1 << 70, {"p": "a"}))),
    ("torn-commit", "its last line lost, by its checksum", lambda table: _lost_line(table, 3)),
    ("torn-commit", "a line of one below lost, by a checksum", _lost_line_below),
    ("torn-commit", "new columns lost, by a checksum", _lost_metadata),
    ("torn-commit", "a vector lost, by a checksum", _lost_vector),
    ("torn-commit", "a compaction", lambda table: _in_a_compaction(table, '{"add":{"path"')),
    ("torn-commit", "an empty compaction", lambda table: _in_a_compaction(table, "")),
    ("torn-commit", "other files of as many bytes, by its checksum", _another_partition),
    ("torn-commit", "within, between others", lambda table: _cut(table.path / log(3))),
    ("torn-commit", "below the checkpoint", lambda table: _cut(table.path / log(1))),
    ("torn-commit", "a schema that is cut, below another", _schema_cut_and_mended),
    (
        "torn-commit",
        "two of a domain",
        lambda table: table.commit(4, protocol("deletionVectors", "domainMetadata"), *[{"domainMetadata": DOMAIN}] * 2),
    ),
    ("torn-commit", "no time of a commit", lambda table: _enabling(table, "inCommitTimestamp", "delta.enableInCommitTimestamps")),
    ("torn-commit", "no ids of rows", lambda table: _enabling(table, "rowTracking", "delta.enableRowTracking")),
    ("torn-commit", "two protocols", lambda table: table.commit(4, *[protocol("deletionVectors")] * 2)),
    ("torn-commit", "two schemas", lambda table: table.commit(4, metadata(PART, ["p"]), metadata(PART[:1], ["p"]))),
    (
        "torn-commit",
        "between two checkpoints",
        lambda table: _below_the_first_commits(table, lambda table: _cut(table.path / log(3))),
    ),
    ("checkpoint-unreadable", "an older one", lambda table: _older_checkpoint(table, lambda path: path.write_bytes(b""))),
    ("checkpoint-unreadable", "an older one, cut", lambda table: _older_checkpoint(table, _cut)),
    (
        "checkpoint-unreadable",
        "one that others are compared with",
        lambda table: _below_the_first_commits(table, lambda table: _cut(checkpoint(table))),
    ),
    ("checkpoint-unreadable", "cut", lambda table: _cut(checkpoint(table))),
    ("checkpoint-unreadable", "empty", lambda table: checkpoint(table).write_bytes(b"")),
    ("checkpoint-unreadable", "no Parquet", lambda table: checkpoint(table).write_bytes(b"PAR1" * 20)),
    ("checkpoint-unreadable", "two of them", _two_checkpoints_cut),
    ("checkpoint-unreadable", "the first part lost", lambda table: _in_parts(table, 1)),
    ("checkpoint-unreadable", "the last part lost", lambda table: _in_parts(table, 3)),
    ("checkpoint-unreadable", "JSON cut", lambda table: _in_json(table, lambda text: text[:-9])),
    ("checkpoint-unreadable", "its sidecar lost", _json_without_sidecar),
    ("checkpoint-contradicts", "no protocol below it", lambda table: _lose(table, 0, "protocol")),
    ("checkpoint-contradicts", "a file too many", _without_an_add),
    ("checkpoint-contradicts", "a file too few", _checkpoint_without_a_file),
    ("checkpoint-contradicts", "another value", lambda table: _checkpoint_with(table, partitionValues=[("p", "z")])),
    ("checkpoint-contradicts", "other partitions", _checkpoint_by_another_partition),
    (
        "checkpoint-contradicts",
        "a file too few, by an older checkpoint",
        lambda table: _below_the_first_commits(table, _checkpoint_without_a_file),
    ),
    (
        "checkpoint-contradicts",
        "other columns",
        lambda table: _checkpoint_saying(table, schemaString=json.dumps({"type": "struct", "fields": PART[:1]})),
    ),
    (
        "checkpoint-contradicts",
        "other properties",
        lambda table: _checkpoint_saying(table, configuration=[("delta.appendOnly", "true")]),
    ),
    ("last-checkpoint-wrong", "a number of files", lambda table: _pointer_saying(table, numOfAddFiles=9)),
    ("last-checkpoint-wrong", "an older version", lambda table: (table.path / LAST).write_text('{"version":1,"size":1}')),
    ("last-checkpoint-wrong", "a newer version", lambda table: (table.path / LAST).write_text('{"version":7,"size":1}')),
    ("last-checkpoint-wrong", "parts", lambda table: (table.path / LAST).write_text('{"version":2,"size":1,"parts":3}')),
    ("last-checkpoint-wrong", "no JSON", lambda table: (table.path / LAST).write_text("{")),
    ("last-checkpoint-wrong", "no version", lambda table: (table.path / LAST).write_text('{"size":1}')),
    ("last-checkpoint-wrong", "a text", lambda table: (table.path / LAST).write_text('{"version":"2","size":1}')),
    ("last-checkpoint-wrong", "empty", lambda table: (table.path / LAST).write_text("")),
    ("log-gap", "at its beginning", _lost_first_commits),
    ("log-gap", "behind the checkpoint", _gap_behind_the_checkpoint),
    ("log-gap", "below the newest", lambda table: table.commit(5, {"commitInfo": {}})),
    ("log-gap", "the newest, but for its checksum", lambda table: _lost_newest(table, f"{3:020d}.crc")),
    ("log-gap", "the newest, but for its checkpoint", _checkpoint_without_its_commit),
    ("log-gap", "behind the checkpoint, but for a compaction", _in_a_compaction),
    ("log-gap", "the newest, but for a compaction", lambda table: _lost_newest(table, f"{2:020d}.{3:020d}.compacted.json")),
    ("log-gap", "the newest, by a name of fewer digits", lambda table: _lost_newest(table, "3.json")),
    ("history-gap", "in the middle", lambda table: (table.path / log(1)).unlink()),
    ("partition-value-nulled", "plain", lambda table: table.commit(4, table.file("p=c/4.parquet", [1], partition={"p": None}))),
    ("partition-value-nulled", "empty", lambda table: table.commit(4, table.file("p=c/4.parquet", [1], partition={"p": ""}))),
    ("partition-value-nulled", "absent", lambda table: table.commit(4, table.file("p=c/4.parquet", [1], partition={}))),
    ("partition-value-nulled", "escaped", _escaped_null),
    ("partition-value-nulled", "below another directory", lambda table: table.commit(4, table.file("ab/4.parquet", [1]))),
    ("partition-value-nulled", "no values", lambda table: _of_three_rows(table, partitionValues=None)),
    ("partition-value-nulled", "no date", lambda table: _day(table, day="x", n="1")),
    ("partition-value-nulled", "no number", lambda table: _day(table, day="2026-01-31", n="1.5")),
    ("remove-without-vector", "another", lambda table: table.commit(4, remove("p=a/1.parquet", vector=ANOTHER))),
    ("remove-without-vector", "none", lambda table: table.commit(4, remove("p=a/1.parquet"))),
    (
        "duplicate-live-path",
        "over two commits",
        lambda table: table.commit(4, table.file("p=a/1.parquet", [1, 2], partition={"p": "a"})),
    ),
    ("duplicate-live-path", "over two commits", _twice),
    ("duplicate-live-path", "in one commit", _twice_in_one_commit),
    (
        "duplicate-live-path",
        "the same add",
        lambda table: table.commit(4, *[table.file("p=d/5.parquet", [1], partition={"p": "d"})] * 2),
    ),
    (
        "duplicate-live-path",
        "by another spelling",
        _by_another_spelling,
    ),
    ("duplicate-live-path", "by another spelling than the checkpoint", _another_spelling_than_the_checkpoint),
    ("removes-unknown", "twice in one commit", lambda table: table.commit(4, *[remove("p=b/3.parquet")] * 2)),
    (
        "removes-unknown",
        "what the same commit adds",
        lambda table: table.commit(4, table.file("p=d/5.parquet", [1], partition={"p": "d"}), remove("p=d/5.parquet")),
    ),
    ("removes-unknown", "a file of nobody", lambda table: table.commit(4, remove("p=z/9.parquet"))),
    ("removes-unknown", "an overwritten commit", _overwritten),
    ("case-clash", "columns", lambda table: table.commit(4, metadata([*PART, {**PART[1], "name": "ID"}], ["p"]))),
    (
        "case-clash",
        "fields of a struct in a list",
        lambda table: table.commit(
            4,
            metadata(
                [
                    *PART,
                    {
                        **PART[1],
                        "name": "s",
                        "type": {
                            "type": "array",
                            "containsNull": True,
                            "elementType": {"type": "struct", "fields": [{**PART[1], "name": "Ä"}, {**PART[1], "name": "ä"}]},
                        },
                    },
                ],
                ["p"],
            ),
        ),
    ),
    ("outside-path", "upwards", lambda table: table.commit(4, add("../x.parquet", partition={"p": "a"}))),
    ("outside-path", "upwards, escaped", lambda table: table.commit(4, add("%2e%2e/x.parquet", partition={"p": "a"}))),
    ("unknown-feature", "of readers", lambda table: table.commit(4, protocol("deletionVectors", "dreams"))),
    ("unknown-feature", "a version below the first", lambda table: table.commit(4, _versions(0, 2))),
    ("unknown-feature", "no list of them", lambda table: table.commit(4, _versions(3, 7))),
    (
        "unknown-feature",
        "a type",
        lambda table: table.commit(4, metadata([*PART, {**PART[1], "name": "g", "type": "shape"}], ["p"])),
    ),
    ("unknown-feature", "of readers alone", lambda table: table.commit(4, _listed(["deletionVectors"], []))),
    ("unknown-feature", "of readers, for writers alone", lambda table: table.commit(4, _listed([], ["deletionVectors"]))),
    ("unknown-feature", "vectors without it", lambda table: table.commit(4, _versions(1, 2))),
    (
        "unknown-feature",
        "mapped columns without it",
        lambda table: table.commit(4, metadata(PART, ["p"], {"delta.columnMapping.mode": "name"})),
    ),
    (
        "unknown-feature",
        "a way to map columns",
        lambda table: table.commit(
            4, protocol("deletionVectors", "columnMapping"), metadata(PART, ["p"], {"delta.columnMapping.mode": "dream"})
        ),
    ),
    ("unknown-action", "in a commit", lambda table: _append(table, 3, dream={"of": 1})),
    ("unknown-storage-type", "a letter", lambda table: _with_vector(table, {**ANOTHER, "storageType": "z"})),
]
