"""The replay against tables that are written by hand, and against delta-rs where that opens them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden.base.connection import Location
from lakewarden.delta.replay import actions, log_state
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.errors import Corrupt, NotFound
from tests.delta.hand_written import HandWritten, add, metadata, protocol, remove


def replayed(table: HandWritten, version: int | None = None) -> LogState:
    state = replay(table.location, version)
    assert state is not None
    return state


def keys(state: LogState) -> list[str]:
    return sorted(str(key) for key in state.files.column("key").to_pylist())


def test_the_newest_action_of_a_file_counts(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(add("a"), add("b"))
    table.commit(1, remove("a"), add("c"), {"txn": {"appId": "x", "version": 3}})
    table.commit(2, add("a"), remove("c"), {"domainMetadata": {"domain": "d", "configuration": "1", "removed": False}})
    table.commit(3, {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}}, {"commitInfo": {"operation": "X"}})
    state = replayed(table)
    assert (state.version, keys(state), state.transactions, state.domains) == (3, ["a", "b"], {"x": 3}, {})
    assert state.newest is not None
    assert state.newest.info == {"operation": "X"}
    assert (keys(replayed(table, 1)), replayed(table, 2).domains) == (["b", "c"], {"d": "1"})


def test_one_file_has_one_key_however_it_is_spelled(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(add("p=a%20b/x"), add(f"file://{table.path}/y"), add("file:///elsewhere/z"))
    table.commit(1, remove("p=a b/x"), remove("y"), remove("/elsewhere/z"))
    assert keys(replayed(table)) == []


def test_a_file_with_another_vector_is_another(tmp_path: Path) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    table = HandWritten(tmp_path / "t")
    table.begin(add("a"))
    table.commit(1, remove("a"), add("a", vector=vector))
    state = replayed(table)
    assert (keys(state), state.files.column("vectorId").to_pylist()) == (["a"], ["uab@1"])
    table.commit(2, remove("a"))
    assert keys(replayed(table)) == ["a"]
    table.commit(3, remove("a", vector=vector))
    assert keys(replayed(table)) == []


def _made(path: Path, commits: int) -> HandWritten:
    """A table of delta-rs with so many commits behind the first, of which every other removes what was there."""
    for number in range(commits + 1):
        mode: Literal["overwrite", "append"] = "overwrite" if number % 3 == 2 else "append"
        write_deltalake(path, pa.table({"id": [number], "p q": [f"a/{number % 2}"]}), mode=mode, partition_by=["p q"])
    table = HandWritten.__new__(HandWritten)
    table.path, table.log = path, path / "_delta_log"
    table.location = Location(str(path))
    return table


@pytest.mark.slow
def test_equals_delta_rs_at_every_version(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", 12)
    DeltaTable(table.path, version=7).create_checkpoint()
    for version in range(13):
        theirs, ours = DeltaTable(table.path, version=version), replayed(table, version)
        adds = pa.RecordBatchReader.from_stream(theirs.get_add_actions()).read_all()
        assert keys(ours) == sorted(unquote(str(path)) for path in adds.column("path").to_pylist())
        assert ours.metadata.configuration == theirs.metadata().configuration
        assert (ours.checkpoint is not None) == (version >= 7)
        assert ours.digest


def test_a_checkpoint_leads_on_without_the_commits_below(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", 5)
    whole = keys(replayed(table))
    DeltaTable(table.path, version=4).create_checkpoint()
    for version in range(5):
        (table.log / f"{version:020d}.json").unlink()
    assert keys(replayed(table)) == whole
    assert replayed(table, 4).newest is None
    with pytest.raises(NotFound, match="no longer in its log: versions 4 to 5 can be read"):
        replayed(table, 3)
    with pytest.raises(NotFound, match="the newest is 5"):
        replayed(table, 6)


def test_a_checkpoint_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", 5)
    whole = keys(replayed(table))
    for version in (2, 4):
        DeltaTable(table.path, version=version).create_checkpoint()
    torn = table.log / f"{4:020d}.checkpoint.parquet"
    torn.write_bytes(torn.read_bytes()[:100])
    state = replayed(table)
    assert (keys(state), [note.kind for note in state.notes]) == (whole, ["checkpoint-unreadable"])
    assert state.checkpoint is not None
    assert state.checkpoint.version == 2
    shutil.copy(torn, table.log / f"{2:020d}.checkpoint.parquet")
    assert (keys(replayed(table)), replayed(table).checkpoint) == (whole, None)
    (table.log / f"{0:020d}.json").unlink()
    with pytest.raises(Corrupt, match="checkpoint"):
        replayed(table)


def _as_json(table: HandWritten, version: int) -> list[str]:
    """The lines of a checkpoint of that version."""
    state = replayed(table, version)
    lines: list[dict[str, object]] = [protocol("v2Checkpoint"), {"checkpointMetadata": {"version": version}}]
    lines.append(json.loads(next(line for line in (table.log / f"{0:020d}.json").read_text().splitlines() if "metaData" in line)))
    lines += [{"txn": {"appId": app, "version": number}} for app, number in state.transactions.items()]
    files = state.files.select(["path", "partitionValues", "size", "modificationTime", "stats"])
    lines += [{"add": {**row, "dataChange": True}} for row in files.to_pylist(maps_as_pydicts="strict")]
    return [json.dumps(line) for line in lines]


def test_checkpoints_in_json_and_sidecars(tmp_path: Path) -> None:
    """A checkpoint by a UUID: in JSON, with all in it; and with its files in sidecars."""
    table = _made(tmp_path / "t", 5)
    whole = keys(replayed(table))
    lines = _as_json(table, 3)
    name = table.log / f"{3:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    name.write_text("\n".join(lines))
    for version in range(4):
        (table.log / f"{version:020d}.json").unlink()
    state = replayed(table)
    assert (keys(state), state.checkpoint and state.checkpoint.kind) == (whole, "UUID-named")

    (table.log / "_sidecars").mkdir()
    adds = [json.loads(line)["add"] for line in lines if '"add"' in line]
    kind = pa.struct([("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string())), ("size", pa.int64())])
    rows = [{"path": one["path"], "partitionValues": [*one["partitionValues"].items()], "size": one["size"]} for one in adds]
    for number, part in enumerate((rows[:1], rows[1:])):
        pq.write_table(pa.table({"add": pa.array(part, kind)}), table.log / "_sidecars" / f"{number}.parquet")
    others = [line for line in lines if '"add"' not in line]
    sidecars = [json.dumps({"sidecar": {"path": f"{number}.parquet", "sizeInBytes": 1}}) for number in range(2)]
    name.write_text("\n".join([*others, *sidecars]))
    assert keys(replayed(table)) == whole
    (table.log / "_sidecars" / "1.parquet").unlink()
    with pytest.raises(Corrupt, match=r"1\.parquet is named by the checkpoint of version 3 and missing"):
        replayed(table)


def test_a_checkpoint_in_parts_is_whole_or_none(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", 5)
    DeltaTable(table.path, version=4).create_checkpoint()
    one = table.log / f"{4:020d}.checkpoint.parquet"
    rows = pq.read_table(one)
    one.unlink()
    for number, part in enumerate((rows.slice(0, 3), rows.slice(3)), 1):
        pq.write_table(part, table.log / f"{4:020d}.checkpoint.{number:010d}.{2:010d}.parquet")
    state = replayed(table)
    assert state.checkpoint is not None
    assert (state.checkpoint.kind, keys(state)) == ("multi-part", keys(replayed(table, 5)))
    (table.log / f"{4:020d}.checkpoint.{1:010d}.{2:010d}.parquet").unlink()
    assert replayed(table).checkpoint is None
    assert keys(replayed(table)) == keys(state)


def test_a_compaction_stands_in_for_commits_that_are_missing_alone(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(add("a"))
    table.commit(1, add("b"))
    table.commit(2, remove("a"))
    compaction = table.log / f"{1:020d}.{2:020d}.compacted.json"
    compaction.write_text("\n".join(json.dumps(action) for action in (add("b"), remove("a"), add("never"))))
    assert keys(replayed(table)) == ["b"]
    table.commit(3, add("c"))
    for version in (1, 2):
        (table.log / f"{version:020d}.json").unlink()
    assert keys(replayed(table)) == ["b", "c", "never"]


def test_a_torn_commit_at_the_end_is_passed_over_and_named(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(add("a"))
    table.commit(1, add("b"))
    table.commit(2, add("c"))
    (table.log / f"{2:020d}.json").write_text('{"add": {"path"')
    state = replayed(table)
    assert (state.version, state.torn, keys(state)) == (1, 2, ["a", "b"])
    assert [note.kind for note in state.notes] == ["torn-commit"]
    table.commit(3, add("d"))
    with pytest.raises(Corrupt, match="torn-commit: commit 2 is not JSON"):
        replayed(table)
    (table.log / f"{3:020d}.json").write_text("")
    assert replayed(table).torn == 2


def test_a_gap_and_what_is_no_action_are_errors(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(add("a"))
    table.commit(2, add("c"))
    with pytest.raises(Corrupt, match="log-gap"):
        replayed(table)
    assert keys(replayed(table, 0)) == ["a"]
    table.commit(1, {"add": {"size": 1}})
    with pytest.raises(Corrupt, match="not as Delta's protocol has it"):
        replayed(table)


def test_a_log_without_protocol_or_metadata_is_an_error(tmp_path: Path) -> None:
    for number, action in enumerate((protocol(), metadata())):
        table = HandWritten(tmp_path / str(number))
        table.commit(0, action)
        with pytest.raises(Corrupt, match="lacks the metadata" if number == 0 else "lacks the protocol"):
            replayed(table)


def test_no_log_is_no_table(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    assert replay(table.location) is None


def test_a_text_of_a_checkpoint_that_is_no_utf_8_makes_it_unreadable(tmp_path: Path) -> None:
    table = _made(tmp_path / "t", 5)
    DeltaTable(table.path, version=4).create_checkpoint()
    place = table.log / f"{4:020d}.checkpoint.parquet"
    pq.write_table(pq.read_table(place), place, compression="none", use_dictionary=False, write_statistics=False)
    assert replayed(table).notes == ()
    data = place.read_bytes()
    place.write_bytes(data.replace(b"a/1", b"a\xa01"))
    assert place.read_bytes() != data
    state = replayed(table)
    assert ([note.kind for note in state.notes], len(keys(state))) == (["checkpoint-unreadable"], len(keys(replayed(table, 5))))
    assert "UTF8" in state.notes[0].detail


def _random_log(table: HandWritten, chosen: random.Random) -> None:
    """Thirty commits that add, remove and replace twelve files, some with vectors."""
    vectors = [None, *({"storageType": "u", "pathOrInlineDv": name, "sizeInBytes": 1, "cardinality": 1} for name in "ab")]
    table.begin(add("f0"), add("f1"))
    for version in range(1, 30):
        names = (f"f{chosen.randrange(12)}" for _ in range(chosen.randrange(5)))
        table.commit(
            version, *(chosen.choice((add, remove))(name, vector=chosen.choice(vectors)) for name in names), {"commitInfo": {}}
        )


@pytest.mark.parametrize("seed", range(3))
def test_logs_of_any_length_are_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Small bounds stand for long commits: of those no actions are kept, and files become columns some at a time."""
    table = HandWritten(tmp_path / "t")
    _random_log(table, random.Random(seed))
    (table.log / f"{3:020d}.{5:020d}.compacted.json").write_text(
        "".join((table.log / f"{version:020d}.json").read_text() for version in (3, 4, 5))
    )
    for version in (3, 4, 5):
        (table.log / f"{version:020d}.json").unlink()
    whole = replayed(table)
    monkeypatch.setattr(actions, "_MOST_KEPT", 0)
    monkeypatch.setattr(log_state, "_MOST_TOUCHED", 3)
    cut = replayed(table)
    by_name: list[tuple[str, Literal["ascending", "descending"]]] = [("key", "ascending"), ("vectorId", "ascending")]
    assert cut.files.sort_by(by_name).equals(whole.files.sort_by(by_name))
    assert whole.newest is not None
    assert cut.newest is not None
    assert (cut.version, cut.digest, cut.newest.info, cut.metadata) == (29, whole.digest, whole.newest.info, whole.metadata)
    assert len(whole.files) > 2
