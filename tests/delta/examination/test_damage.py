"""Each damage, made by hand, is found by its name and no other; a whole table has none."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden.delta.examination.examination import Examination, examine
from lakewarden.delta.examination.kinds import KINDS
from lakewarden.delta.examination.listing import TableListing
from lakewarden.delta.replay.vectors import z85
from lakewarden.storage.open import open_store
from tests.delta.hand_written import HandWritten, add, bitmap, metadata, protocol, remove

PART = [
    {"name": "p", "type": "string", "nullable": True, "metadata": {}},
    {"name": "id", "type": "long", "nullable": True, "metadata": {}},
]
_DIGITS = "ab^-aqEH.-t@S}K{vb[*"
"""A UUID in base 85."""
_ANOTHER: dict[str, object] = {
    "storageType": "u",
    "pathOrInlineDv": _DIGITS[::-1],
    "offset": 1,
    "sizeInBytes": 40,
    "cardinality": 1,
}


def look(table: HandWritten, *, deep: bool = False) -> Examination:
    return examine(table.location, TableListing.of(open_store(table.location).list("")), deep=deep)


def kinds(table: HandWritten) -> set[str]:
    return {note.kind for note in look(table).notes}


def whole(table: HandWritten) -> None:
    """Four versions, of which the third has a checkpoint; partitions, a vector, and a file that is gone."""
    size = table.vector(_name(), bitmap([0]))
    vector = {"storageType": "u", "pathOrInlineDv": _DIGITS, "offset": 1, "sizeInBytes": size, "cardinality": 1}
    first = table.file("p=a/1.parquet", [1, 2], partition={"p": "a"})
    second = table.file("p=b/2.parquet", [3], partition={"p": "b"})
    table.begin(first, second, fields=PART, partition_by=["p"], features=("deletionVectors",))
    table.commit(1, remove("p=b/2.parquet"), table.file("p=b/3.parquet", [4], partition={"p": "b"}))
    table.commit(2, {"commitInfo": {"operation": "X"}})
    DeltaTable(table.path).create_checkpoint()
    more = {**first["add"], "deletionVector": vector}
    table.commit(3, remove("p=a/1.parquet"), {"add": more})


def _name() -> str:
    return f"deletion_vector_{uuid.UUID(bytes=z85(_DIGITS))}.bin"


def _append(table: HandWritten, version: int, **action: object) -> None:
    with (table.log / f"{version:020d}.json").open("a") as file:
        file.write(f"{json.dumps(action)}\n")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _partition_nulled(table: HandWritten) -> None:
    table.commit(4, table.file("p=c/4.parquet", [1], partition={"p": None}))


def _contradicts(table: HandWritten) -> None:
    commit = table.log / f"{1:020d}.json"
    commit.write_text("".join(line for line in commit.read_text().splitlines(keepends=True) if '"add"' not in line))


def _second_vector(table: HandWritten) -> None:
    table.commit(4, {"add": {**table.file("p=a/1.parquet", [1, 2], partition={"p": "a"})["add"]}})


def _lost_first_commit(table: HandWritten) -> None:
    for version in range(3):
        (table.log / f"{version:020d}.json").unlink()
    (table.log / f"{2:020d}.checkpoint.parquet").unlink()
    (table.log / "_last_checkpoint").unlink()


DAMAGES: dict[str, Callable[[HandWritten], object]] = {
    "hollow": lambda table: (table.path / "p=b/3.parquet").unlink(),
    "size-differs": lambda table: _cut(table.path / "p=b/3.parquet"),
    "vector-gone": lambda table: (table.path / _name()).unlink(),
    "vector-short": lambda table: _cut(table.path / _name()),
    "torn-commit": lambda table: (table.log / f"{4:020d}.json").write_text("{"),
    "checkpoint-unreadable": lambda table: _cut(table.log / f"{2:020d}.checkpoint.parquet"),
    "checkpoint-contradicts": _contradicts,
    "last-checkpoint-wrong": lambda table: (table.log / "_last_checkpoint").write_text('{"version":1,"size":1}'),
    "log-gap": _lost_first_commit,
    "history-gap": lambda table: (table.log / f"{1:020d}.json").unlink(),
    "partition-value-nulled": _partition_nulled,
    "remove-without-vector": lambda table: table.commit(4, remove("p=a/1.parquet", vector=_ANOTHER)),
    "duplicate-live-path": _second_vector,
    "removes-unknown": lambda table: table.commit(4, remove("p=z/9.parquet")),
    "case-clash": lambda table: table.commit(4, metadata([*PART, {**PART[1], "name": "ID"}], ["p"])),
    "outside-path": lambda table: table.commit(4, add("../x.parquet", partition={"p": "a"})),
    "unknown-feature": lambda table: table.commit(4, protocol("deletionVectors", "dreams")),
    "unknown-action": lambda table: _append(table, 3, dream={"of": 1}),
    "unknown-storage-type": lambda table: table.commit(
        4, table.file("p=d/5.parquet", [1], partition={"p": "d"}, vector={**_ANOTHER, "storageType": "z"})
    ),
}


def test_each_kind_has_its_case() -> None:
    assert {*DAMAGES} == {*KINDS}


def test_a_whole_table_has_none(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    whole(table)
    assert kinds(table) == set()


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damage_is_found_by_its_name(tmp_path: Path, kind: str) -> None:
    table = HandWritten(tmp_path / "t")
    whole(table)
    DAMAGES[kind](table)
    assert kinds(table) == {kind}


def test_what_no_name_fits_is_unreadable(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.commit(0, metadata())
    found = look(table)
    assert (found.verdict, found.state, found.notes) == ("unreadable", None, ())
    assert "lacks the protocol" in found.error
