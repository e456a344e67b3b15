"""Logs that are made to take all memory or time: each ends soon, in a refusal that says why."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.delta.reading.foreign import open_foreign
from lakewarden.delta.replay import checkpoints, log_objects
from lakewarden.delta.replay.columns import all_rows
from lakewarden.delta.replay.log_state import replay
from lakewarden.delta.replay.parquet_footer import longest_dictionary
from lakewarden.errors import Corrupt, LakewardenError, Unsupported
from tests.delta.hand_written import HandWritten, add, metadata, protocol

MEMORY = 2 << 30
"""Bytes that a process may have for it, of which the libraries take some 400 million before."""


def _long_commit(table: HandWritten) -> None:
    table.begin()
    with (table.log / f"{1:020d}.json").open("wb") as file:
        file.truncate(4 << 30)  # without a block on the disk


def _deep(table: HandWritten) -> None:
    table.begin()
    (table.log / f"{1:020d}.json").write_text('{"x":' + "[" * 1_000_000 + "]" * 1_000_000 + "}\n")


def _deep_info(table: HandWritten) -> None:
    table.begin()
    (table.log / f"{1:020d}.json").write_text('{"commitInfo":' + '{"a":' * 1_000_000 + "1" + "}" * 1_000_000 + "}\n")


def _deep_stats(table: HandWritten) -> None:
    said = table.file("a.parquet", [1])
    said["add"]["stats"] = "[" * 1_000_000
    table.begin(said)


def _deep_schema(table: HandWritten) -> None:
    said = metadata()
    said["metaData"]["schemaString"] = '{"type":"struct","fields":' + "[" * 1_000_000
    table.commit(0, protocol(), said)


def _deep_type(table: HandWritten) -> None:
    kind: object = "long"
    for _ in range(400):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    table.begin(fields=[{"name": "a", "type": kind, "nullable": True, "metadata": {}}])


def _checkpoint(table: HandWritten, path: str, rows: int, groups: int) -> None:
    """With one path in all rows, which stands in the file once for each group of them."""
    rest = [None] * (rows - 1)
    head = {
        "protocol": pa.array([protocol()["protocol"], *rest]),
        "metaData": pa.array([{"schemaString": metadata()["metaData"]["schemaString"]}, *rest]),
    }
    adds = pa.StructArray.from_arrays([pa.array([path] * rows)], names=["path"])
    part = pa.table({**head, "add": adds})
    place, most = table.log / f"{5:020d}.checkpoint.parquet", 1 << 30
    with pq.ParquetWriter(place, part.schema, compression="zstd", dictionary_pagesize_limit=most) as writer:
        for _ in range(groups):
            writer.write_table(part)


def _bomb(table: HandWritten) -> None:
    """Some kilobytes, which mean 1.5 GB."""
    _checkpoint(table, "x" * 10_000, 1_000, 150)


def _ten_million_files(table: HandWritten) -> None:
    pq.write_table(pa.table({"other": pa.nulls(10_000_000, pa.int8())}), table.log / f"{5:020d}.checkpoint.parquet")


def _far_version(table: HandWritten) -> None:
    table.begin()
    table.commit(10**18, add("a"))


HOSTILE: dict[str, tuple[Callable[[HandWritten], None], str]] = {
    "a commit of 4 GB": (_long_commit, "too large to be read: more than 268,435,456 bytes"),
    "a JSON a million deep": (_deep, "commit 1 is nested too deep"),
    "a commitInfo a million deep": (_deep_info, "commit 1 is nested too deep"),
    "a schema a million deep": (_deep_schema, "schema is not as Delta's protocol has it"),
    "a type 400 deep": (_deep_type, "nested deeper than 100 levels"),
    "a checkpoint bomb": (_bomb, "than are read"),
    "ten million files": (_ten_million_files, "rows; at most 5,000,000 are read"),
    "a version behind the others": (_far_version, "log-gap"),
}


@pytest.mark.parametrize("case", [name for name in HOSTILE if name != "a checkpoint bomb"])
def test_it_is_refused_by_name(tmp_path: Path, case: str) -> None:
    make, says = HOSTILE[case]
    table = HandWritten(tmp_path / "t")
    make(table)
    with pytest.raises(LakewardenError, match=says):
        all_rows(open_foreign(table.location))


_READ = """
import sys
from benchmarks.measuring.memory import peak_bytes
from lakewarden.base.connection import Location
from lakewarden.delta.replay.log_state import replay
from lakewarden.errors import LakewardenError
import deltalake, pyarrow.parquet, pyarrow.compute
try:
    replay(Location(sys.argv[1]))
except LakewardenError as error:
    print(error.message)
print(peak_bytes())
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", ["a commit of 4 GB", "a checkpoint bomb", "ten million files"])
def test_it_takes_bounded_memory(tmp_path: Path, case: str) -> None:
    make, says = HOSTILE[case]
    table = HandWritten(tmp_path / "t")
    make(table)
    done = subprocess.run([sys.executable, "-c", _READ, str(table.path)], capture_output=True, text=True, check=True)
    message, peak = done.stdout.splitlines()
    assert says in message
    assert 0 < int(peak) < MEMORY


def test_a_long_value_in_a_dictionary_is_seen_in_the_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HandWritten(tmp_path / "t")
    _checkpoint(table, "x" * 1_000_000, 3, 2)
    data = (table.log / f"{5:020d}.checkpoint.parquet").read_bytes()
    assert longest_dictionary(data) == 1_000_004
    monkeypatch.setattr(checkpoints, "_SMALL", 0)
    assert replay(table.location) is not None
    monkeypatch.setattr(checkpoints, "_MOST_BATCH", 8_000_000)
    with pytest.raises(Unsupported, match="has a dictionary of 1,000,004 bytes"):
        replay(table.location)
    for end in range(1, len(data)):
        with suppress(ValueError):
            longest_dictionary(data[:-end] + data[-8:])


def test_deep_statistics_hurt_nobody_who_does_not_read_them(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    _deep_stats(table)
    assert all_rows(open_foreign(table.location)).num_rows == 1


def test_all_that_is_read_is_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin()
    for version in range(1, 5):
        table.commit(version, add(f"{version}"))
    size = sum(commit.stat().st_size for commit in table.log.iterdir())
    monkeypatch.setattr(log_objects, "MOST_LOG", size)
    assert replay(table.location) is not None
    monkeypatch.setattr(log_objects, "MOST_LOG", size - 1)
    with pytest.raises(Unsupported, match="too large"):
        replay(table.location)


def test_files_of_commits_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakewarden.delta.replay import log_state

    table = HandWritten(tmp_path / "t")
    table.begin(*(add(str(number)) for number in range(10)))
    monkeypatch.setattr(log_state, "MOST_FILES", 9)
    with pytest.raises(Unsupported, match="more files than are read"):
        replay(table.location)


def test_a_checkpoint_that_is_no_parquet_is_none(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    (table.log / f"{5:020d}.checkpoint.parquet").write_text(json.dumps({}))
    with pytest.raises(Corrupt, match="checkpoint"):
        replay(table.location)
    assert checkpoints.MOST_FILES == 5_000_000
