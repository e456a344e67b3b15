"""The second opinion of delta-rs: it agrees where nothing is wrong, each difference shows, and where it has none it says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden.base.connection import Location
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.examination import second_opinion as module
from lakewarden.delta.examination.second_opinion import SecondOpinion, second_opinion
from lakewarden.delta.lifecycle.fence import fence
from lakewarden.delta.replay.live_files import NO_FILES, of_adds
from lakewarden.delta.replay.log_objects import commit_name
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.storage.steps import alone
from tests.delta.hand_written import HandWritten, bitmap, inline, remove
from tests.delta.scopes import APP, by, flush, people, table_of, target

_AGREES = SecondOpinion()


def _state(scope: ScopeTarget) -> LogState:
    return table_of(scope).log_state


@pytest.mark.slow
def test_it_agrees_on_every_version_of_ours(tmp_path: Path) -> None:
    scope = target(tmp_path / "a b%c")
    for number in range(12):  # a checkpoint among them
        flush(scope, people(number, 1, name=f"v{number}-"), first_seq=2 * number)
        assert second_opinion(_state(scope), APP) == _AGREES
    alone(fence(scope, by("J")))
    assert second_opinion(_state(scope), APP) == _AGREES


def test_it_agrees_on_partitions_and_vectors_of_others(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(
            tmp_path / "p", pa.table({"id": [number], "p q": [f"a/b %{number}"]}), mode="append", partition_by=["p q"]
        )
    assert _asked(tmp_path / "p") == _AGREES
    table = _with_vectors(tmp_path / "v")
    assert _asked(table.path) == _AGREES
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    assert [_asked(tmp_path / "link" / name) for name in "pv"] == [_AGREES, _AGREES], "below a link, which delta-rs resolves"


def _with_vectors(path: Path) -> HandWritten:
    table = HandWritten(path)
    table.begin(table.file("a.parquet", [1, 2, 3]), features=("deletionVectors",))
    added = table.file("a.parquet", [1, 2, 3], vector=inline(bitmap([1]), 1))
    added["add"]["stats"] = '{"numRecords": 3}'  # delta-rs reads no vector without
    table.commit(1, remove("a.parquet"), added)
    return table


def _asked(path: Path, change: Callable[[LogState], LogState] = lambda state: state) -> SecondOpinion:
    state = replay(Location(str(path)))
    assert state is not None
    return second_opinion(change(state), APP)


def _without_vectors(state: LogState) -> LogState:
    column = state.files.schema.get_field_index("deletionVector")
    none = pa.nulls(state.files.num_rows, state.files.schema.field("deletionVector").type)
    return replace(state, files=state.files.set_column(column, "deletionVector", none))


def _with_another_vector(state: LogState, rows: list[int]) -> LogState:
    said = inline(bitmap(rows), len(rows))
    made = [{**one, "deletionVector": said} for one in state.files.to_pylist(maps_as_pydicts="strict")]
    return replace(state, files=pa.Table.from_pylist(made, schema=state.files.schema))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: replace(state, files=NO_FILES), "version 1 has 1 live files by delta-rs alone, as a.parquet"),
        (lambda state: replace(state, metadata=state.metadata.__class__(id="x")), "version 1 has the table id x by its log"),
        (lambda state: replace(state, transactions={APP: 3}), "version 1 has the watermark 3 by its log, and None by delta-rs"),
        (_without_vectors, "version 1 has other deleted rows of a.parquet by its log than by delta-rs"),
        (lambda state: _with_another_vector(state, [0]), "other deleted rows of a.parquet"),
        (lambda state: _with_another_vector(state, [1, 2]), "other deleted rows of a.parquet"),
    ],
)
def test_each_difference_is_said_with_its_version(tmp_path: Path, change: Callable[[LogState], LogState], said: str) -> None:
    (found,) = _asked(_with_vectors(tmp_path / "t").path, change).differs
    assert said in found


def test_files_that_delta_rs_lacks_are_said(tmp_path: Path) -> None:
    place = _with_vectors(tmp_path / "t").path
    (found,) = _asked(place, lambda state: replace(state, files=pa.concat_tables([state.files] * 2))).differs
    assert found == "version 1 has 1 live files by its log alone, as a.parquet"
    table = HandWritten(tmp_path / "n")
    table.begin(table.file("a.parquet", [1, 2]), features=("deletionVectors",))
    (found,) = _asked(table.path, lambda state: _with_another_vector(state, [0])).differs
    assert found == "version 0 has deleted rows of a.parquet by its log alone"


def test_another_newest_version_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(table.file("a.parquet", [1]))
    old = replay(table.location)
    assert old is not None
    table.commit(1, table.file("b.parquet", [2]))
    assert second_opinion(old, APP) == _AGREES, "somebody committed in between"
    monkeypatch.setattr(module, "replay", lambda location: old)
    assert second_opinion(old, APP).differs == ("the newest version is 0 by its log, and 1 by delta-rs",)


def test_a_removal_by_an_absolute_path_is_read_otherwise_by_delta_rs(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(table.file("a.parquet", [1]), table.file("b.parquet", [2]))
    table.commit(1, remove(f"file://{table.path}/a.parquet"))
    assert _asked(table.path).differs == ("version 1 has 1 live files by delta-rs alone, as a.parquet",)


def test_a_torn_newest_commit_is_passed_over_by_both(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(3):
        flush(scope, people(number), first_seq=number)
    for text in (b"", b'{"add'):
        (tmp_path / "t" / commit_name(2)).write_bytes(text)
        assert second_opinion(_state(scope), APP) == _AGREES


def test_where_delta_rs_opens_nothing_it_says_why(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(table.file("a.parquet", [1]), features=("catalogOwned",))
    assert _asked(table.path) == SecondOpinion(withheld="it does not read the feature catalogOwned")
    scope = target(tmp_path / "s")
    for number in range(12):
        flush(scope, people(number), first_seq=number)
    (tmp_path / "s" / "_delta_log" / f"{9:020d}.checkpoint.parquet").write_bytes(b"PAR1")
    assert "file size of 4 is less than footer" in second_opinion(_state(scope), APP).withheld


def test_where_delta_rs_reads_no_vector_the_rest_is_compared(tmp_path: Path) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(table.file("a.parquet", [1, 2], vector=inline(bitmap([1]), 1)), features=("deletionVectors",))
    assert "Missing numRecords" in _asked(table.path).withheld
    assert _asked(table.path, lambda state: replace(state, transactions={APP: 1})).differs


def test_files_of_a_checkpoint_are_compared_by_what_their_spelling_means(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(tmp_path / "t", pa.table({"id": [number], "p": ["ä b"]}), mode="append", partition_by=["p"])
    DeltaTable(tmp_path / "t").create_checkpoint()
    assert _asked(tmp_path / "t") == _AGREES
    assert of_adds([], "") is NO_FILES
