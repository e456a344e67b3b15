"""Tables whose files are divided by columns: every reader finds the values, and a flush moves rows between partitions."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.change import TooLarge
from lakewarden.delta.partitions import directory, divided, value_of
from lakewarden.delta.reading.bounds import Bound, files_within
from lakewarden.delta.reading.keys import Keys
from lakewarden.delta.reading.rows import read_rows
from lakewarden.storage.steps import alone
from tests.delta.scopes import Row, flush, hot, hot_of, opened, paths, rows_of, schema, table_of, target
from tests.fixtures.examples import campaign

KINDS = ["plain", "a/b", "k=v", "100%", "%2F", "a b", "zażółć", "😀", "'\"\\", "x" * 300, "日" * 100, "CON", "..", None]
ODD = ["\x00", "a\x00\n\t\x7f", "x" * 200, "é" * 33, "+", "null", "\ufeff", "\u0301", " a ", "~", ".", "C:\\", "1.0", "nan"]
SHORTENED = ["__HIVE_DEFAULT_PARTITION__", "x" * 201, "a" + "é" * 34, *("é" * n for n in (34, 101)), "😀" * 60, "%" * 67]
EVENTS = schema("id BIGINT NOT NULL", "kind TEXT", "n INT", by=["kind"])
KEYED = schema("kind TEXT NOT NULL", "id BIGINT NOT NULL", "n INT", key=("kind", "id"), by=["kind"])
TYPED = schema(
    "id BIGINT NOT NULL",
    *("flag BOOLEAN", "small SMALLINT", "whole INT", "amount DECIMAL(10,2)", "day DATE", "at TIMESTAMP", "t TIME", "ref UUID"),
    by=["flag", "small", "whole", "amount", "day", "at", "t", "ref"],
)


def _events(*rows: tuple[int, str | None, int]) -> list[Row]:
    return [{"id": id_, "kind": kind, "n": n} for id_, kind, n in rows]


def _theirs(scope: ScopeTarget) -> list[Row]:
    """As delta-rs reads it."""
    found = pa.RecordBatchReader.from_stream(DeltaTable(scope.uri).scan()).read_all().drop_columns(["_seq"]).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_any_text_is_a_partition_for_every_reader(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVENTS)
    rows = _events(*((number, kind, number) for number, kind in enumerate(KINDS)))
    flush(scope, rows)
    assert rows_of(scope) == _theirs(scope) == rows
    polars = pl.scan_delta(scope.uri).select("id", "kind", "n").sort("id").collect().to_dicts()
    # Polars takes a value from the directory, whose name is too short for the long ones
    short = [row["id"] for row in rows if len(row["kind"] or "") < 100]
    assert [row for row in polars if row["id"] in short] == [row for row in rows if row["id"] in short]
    assert len(paths(scope)) == len(KINDS)
    assert all((tmp_path / "t" / path).exists() for path in paths(scope))
    named = {path.rpartition("/")[0] for path in paths(scope)}
    assert {"kind=plain", "kind=a%2Fb", "kind=k%3Dv", "kind=100%25", "kind=__HIVE_DEFAULT_PARTITION__"} <= named
    flush(scope, deletes=rows[::2], first_seq=100)
    assert rows_of(scope) == _theirs(scope) == rows[1::2]


def test_odd_texts_are_partitions_for_every_reader(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVENTS)
    rows = _events(*((number, kind, number) for number, kind in enumerate((*ODD, *SHORTENED, None))))
    flush(scope, rows)
    assert rows_of(scope) == _theirs(scope) == rows
    polars = [row["kind"] for row in pl.scan_delta(scope.uri).select("id", "kind").sort("id").collect().to_dicts()]
    assert polars[: len(ODD)] == ODD
    assert polars.count(None) == 1, "a shortened text is none of the others"
    assert len(paths(scope)) == len({*polars}) == len(rows)


@pytest.mark.parametrize("kind", SHORTENED, ids=lambda kind: f"{len(kind)} characters")
def test_the_directory_of_a_shortened_text_begins_with_whole_characters(kind: str) -> None:
    name = unquote(directory((("kind", kind),)), errors="strict")
    beginning, _, digest = name.removeprefix("kind=").removesuffix("/").rpartition("~")
    assert kind.startswith(beginning)
    assert len(digest) == 64


def test_a_flush_is_too_large_by_its_two_largest_partitions_or_by_far_in_all(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVENTS)
    rows = _events(*((number, f"{number:02}", 1) for number in range(40)))
    flush(scope, rows)
    largest = max(file.size for file in table_of(scope).files())

    def change(first: int, end: int, large_bytes: int) -> None:
        changed = _events(*((number, f"{number:02}", 2) for number in range(first, end)))
        seq = (table_of(scope).watermark(scope.app_id) or 0) + 1
        cold = opened(scope, large_bytes=large_bytes)
        alone(cold.commit(hot(EVENTS, changed, seq), seq + len(changed)))

    for bound, count in ((2 * largest - 2 * 40, 3), (2 * largest, 40)):  # all files have about one size
        with pytest.raises(TooLarge):
            change(0, count, bound)
    change(0, 20, 2 * largest)
    assert [row["n"] for row in rows_of(scope)] == [2] * 20 + [1] * 20


def test_every_type_that_can_be_a_partition_is_read_as_it_was_written(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", TYPED)
    rows: list[Row] = [
        {
            "id": 1,
            "flag": True,
            "small": -32768,
            "whole": 0,
            "amount": Decimal("-0.50"),
            "day": date(2024, 2, 29),
            "at": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            "t": 86_399_999_999,
            "ref": "0191e3c5-7f4a-7cc2-98a1-000000000000",
        },
        {"id": 2, **dict.fromkeys(TYPED.names[1:])},
        {
            "id": 3,
            "flag": False,
            "small": 7,
            "whole": 2**31 - 1,
            "amount": Decimal("12345678.90"),
            "day": date(1, 1, 1),
            "at": datetime(2024, 5, 1, tzinfo=UTC),
            "t": 0,
            "ref": "x",
        },
    ]
    flush(scope, rows)
    assert rows_of(scope) == _theirs(scope) == rows
    table = table_of(scope)
    types = {column.name: column.type for column in table.columns}
    for row, file in zip(rows, sorted(table.files(), key=lambda file: file.min_seq or 0), strict=True):
        assert {name: value_of(text, types[name]) for name, text in file.partition} == {
            name: row[name] for name in TYPED.partition_by
        }


def test_the_files_have_no_partition_columns_and_the_log_has(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVENTS)
    flush(scope, _events((1, "a%b", 1)))
    (path,) = paths(scope)
    assert pq.read_schema(tmp_path / "t" / path).names == ["id", "n", "_seq"]
    actions = [json.loads(line) for line in (tmp_path / "t/_delta_log/00000000000000000000.json").read_text().splitlines()]
    (add,) = (action["add"] for action in actions if "add" in action)
    assert (unquote(add["path"]), add["partitionValues"]) == (path, {"kind": "a%b"})
    (head,) = (action["metaData"] for action in actions if "metaData" in action)
    assert head["partitionColumns"] == ["kind"]


def test_a_row_whose_partition_column_changes_moves(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVENTS)
    flush(scope, _events((1, "a", 1), (2, "a", 2), (3, "b", 3)))
    before = paths(scope)
    cold = flush(scope, _events((2, "b", 20)), first_seq=3)
    assert rows_of(scope) == _theirs(scope) == _events((1, "a", 1), (2, "b", 20), (3, "b", 3))
    assert cold.applied is not None
    metrics = cold.applied.metrics
    assert (metrics["rows_updated"], metrics["rows_inserted"], metrics["rows_deleted"]) == (1, 0, 0)
    assert len(before & paths(scope)) == 1, "the file of b holds none of the keys"


def test_a_flush_reads_the_files_of_its_own_partitions_where_they_are_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = target(tmp_path / "t", KEYED)
    flush(scope, _events(*((number, kind, 0) for kind in "abcde" for number in range(2))))
    read = _counted(monkeypatch, "lakewarden.delta.change.open_file")
    flush(scope, _events((1, "a", 5), (1, "e", 5)), first_seq=10)
    assert sorted(path[:6] for path in read) == ["kind=a", "kind=e"]


@pytest.mark.slow
def test_a_file_is_compared_with_the_keys_of_its_own_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a flush of a batch into ten thousand partitions compares each of them with all of it."""
    scope = target(tmp_path / "t", KEYED)
    everywhere = [(number, f"{number % 50:02}", 0) for number in range(1000)]
    flush(scope, _events(*everywhere))
    compared: list[int] = []
    places = Keys.places

    def counted(keys: Keys, others: pa.Table) -> object:
        compared.append(keys.rows.num_rows)
        return places(keys, others)

    monkeypatch.setattr(Keys, "places", counted)
    flush(scope, _events(*everywhere), first_seq=1000)
    assert compared == [20] * 50


_PLACED = st.tuples(st.sampled_from(["a", "b=", "c"]), st.integers(0, 4))


@settings(max_examples=settings().max_examples // 3)
@given(batches=st.lists(st.lists(st.tuples(_PLACED, st.none() | st.integers(0, 9)), min_size=1, max_size=8), max_size=6))
def test_flushes_by_a_key_with_the_partition_equal_a_dictionary(batches: list[list[tuple[tuple[str, int], int | None]]]) -> None:
    """What they count, too: a file's hits are numbers in the whole batch."""
    model: dict[tuple[object, object], Row] = {}
    seq = 0
    with tempfile.TemporaryDirectory() as place:
        scope = target(Path(place) / "t", KEYED)
        for batch in batches:
            rows = [({"id": id_, "kind": kind, "n": n}, n is None) for (kind, id_), n in batch]
            newest = {(row["kind"], row["id"]): row for row, _ in rows}
            before = model.keys() & newest.keys()
            deleted = {key for key in before if newest[key]["n"] is None}
            inserted = {key for key, row in newest.items() if row["n"] is not None} - before
            cold = opened(scope)
            alone(cold.commit(hot_of(KEYED, rows, seq), seq + len(rows) - 1))
            seq += len(rows)
            model = {key: row for key, row in (model | newest).items() if row["n"] is not None}
            assert rows_of(scope) == sorted(model.values(), key=lambda row: (row["kind"], row["id"]))
            assert cold.applied is not None
            counts = [cold.applied.metrics[f"rows_{what}"] for what in ("inserted", "updated", "deleted")]
            assert counts == [len(inserted), len(before - deleted), len(deleted)]


def test_only_the_files_of_wanted_partitions_are_read(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVENTS)
    flush(scope, _events(*((number, kind, number) for number, kind in enumerate(["a", "b", "c", "d", None]))))
    table = table_of(scope)

    def left(*bounds: Bound) -> list[str | None]:
        return [file.partition[0][1] for file in files_within(table, bounds)]

    assert left(Bound("kind", "b", "c")) == ["b", "c"]
    assert left(Bound("kind", "a", "d", ("a", "d"))) == ["a", "d"]
    assert left(Bound("kind", low="d")) == ["d"]
    assert left(Bound("n", 4, 4)) == [None]
    assert left() == ["a", "b", "c", "d", None]
    assert read_rows(table, scope.schemas, ["n"], [Bound("kind", "b", "b")]).to_pylist() == [{"n": 1}]


def test_files_that_others_wrote_into_partitions_are_read_and_replaced(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVENTS)
    flush(scope, _events((1, "a b", 1)))
    theirs = pa.table({"id": [2, 3], "kind": ["a b", None], "n": pa.array([2, 3], pa.int32()), "_seq": pa.nulls(2, pa.int64())})
    write_deltalake(scope.uri, theirs, mode="append")
    assert rows_of(scope) == _theirs(scope) == _events((1, "a b", 1), (2, "a b", 2), (3, None, 3))
    flush(scope, _events((2, "c", 5), (3, "a b", 6)), first_seq=5)
    assert rows_of(scope) == _theirs(scope) == _events((1, "a b", 1), (2, "c", 5), (3, "a b", 6))


def test_a_column_that_is_added_leaves_the_partitions_that_the_next_flush_does_not_touch(tmp_path: Path) -> None:
    flush(target(tmp_path / "t", EVENTS), _events((1, "a", 1), (2, "b", 2)))
    wider = schema("id BIGINT NOT NULL", "kind TEXT", "n INT", "more TEXT", version=2, by=["kind"])
    scope = target(tmp_path / "t", EVENTS, wider)
    assert rows_of(scope) == [row | {"more": None} for row in _events((1, "a", 1), (2, "b", 2))]
    before = {path for path in paths(scope) if path.startswith("kind=a/")}
    flush(scope, [{"id": 2, "kind": "a", "n": 3, "more": "m"}], first_seq=5)
    assert before < paths(scope)
    assert (
        rows_of(scope)
        == _theirs(scope)
        == [{"id": 1, "kind": "a", "n": 1, "more": None}, {"id": 2, "kind": "a", "n": 3, "more": "m"}]
    )


def test_large_partitions_keep_their_number_of_files(tmp_path: Path) -> None:
    scope = target(tmp_path / "t", EVENTS, target_file_size=1 << 10)
    flush(scope, _events(*((number, "a", number) for number in range(400)), (900, "b", 1)))
    flush(scope, _events((7, "a", 0), (900, "b", 2)), first_seq=1000)
    counts = Counter(path.partition("/")[0] for path in paths(scope))
    assert (counts["kind=a"] > 2, counts["kind=b"]) == (True, 1)


def test_a_directory_is_never_longer_than_file_systems_allow() -> None:
    for kind in KINDS:
        (name,) = directory((("c" * 50, kind),)).split("/")[:-1]
        assert len(name.encode()) <= 255
    assert directory((("a", "x" * 300),)) != directory((("a", "x" * 301),))


def test_rows_are_divided_in_the_order_of_their_first() -> None:
    rows = pa.table({"a": ["y", "x", "", "y", None], "b": [1, 1, 2, 2, 2]})
    found = [(partition, part.to_pylist()) for partition, part in divided(rows, ["a", "b"])]
    assert found == [
        ((("a", "y"), ("b", "1")), [{"a": "y", "b": 1}]),
        ((("a", "x"), ("b", "1")), [{"a": "x", "b": 1}]),
        ((("a", None), ("b", "2")), [{"a": "", "b": 2}, {"a": None, "b": 2}]),
        ((("a", "y"), ("b", "2")), [{"a": "y", "b": 2}]),
    ]
    assert list(divided(rows.slice(0, 0), ["a"])) == []


def test_rows_in_several_chunks_are_copied_once_however_many_partitions_they_have() -> None:
    rows = pa.concat_tables([pa.table({"a": range(first, first + 50), "text": ["x"] * 50}) for first in (0, 50)])
    parts = [part for _, part in divided(rows, ["a"])]
    assert len(parts) == 100
    for name in ("a", "text"):
        chunks: list[Any] = [part.column(name).chunk(0) for part in parts]
        places = {values.address for chunk in chunks if (values := chunk.buffers()[-1]) is not None}
        assert len(places) == 1, "each take joins the chunks: as many copies of all rows as partitions"


_STEP = st.tuples(st.integers(0, 8), st.none() | st.tuples(st.sampled_from(["a", "b=", "c/%", None]), st.integers(0, 9)))
_BATCH = st.lists(_STEP, min_size=1, max_size=6) | st.sampled_from(["compact", "checkpoint"])


@pytest.mark.slow
@campaign(settings().max_examples // 3, gate=11)  # each is a dozen commits
@given(batches=st.lists(_BATCH, min_size=1, max_size=8))
def test_flushes_that_move_rows_equal_a_dictionary(batches: list[list[tuple[int, tuple[str | None, int] | None]] | str]) -> None:
    model: dict[int, Row] = {}
    seq = 0
    with tempfile.TemporaryDirectory() as place:
        scope = target(Path(place) / "t", EVENTS)
        flush(scope, [])
        for batch in batches:
            if batch == "compact":
                DeltaTable(scope.uri).optimize.compact()
            elif batch == "checkpoint":
                DeltaTable(scope.uri).create_checkpoint()
            else:
                seq = _flush(scope, batch, model, seq)  # type: ignore[arg-type]
            assert rows_of(scope) == _theirs(scope) == [model[key] for key in sorted(model)]
            assert table_of(scope).state("x").rows == len(model)


def _flush(scope: ScopeTarget, steps: list[tuple[int, tuple[str | None, int] | None]], model: dict[int, Row], seq: int) -> int:
    rows: list[tuple[Row, bool]] = []
    for id_, value in steps:
        kind, n = value or (None, None)
        rows.append(({"id": id_, "kind": kind, "n": n}, value is None))
        model.pop(id_, None)
        if value is not None:
            model[id_] = rows[-1][0]
    alone(opened(scope).commit(hot_of(EVENTS, rows, seq), seq + len(rows) - 1))
    return seq + len(rows)


def _counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """The paths of the files that are opened from now on."""
    from lakewarden.delta.parquet.reading import open_file

    read: list[str] = []

    def opening(store: object, path: str, *rest: object) -> object:
        read.append(path)
        return open_file(store, path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(name, opening)
    return read
