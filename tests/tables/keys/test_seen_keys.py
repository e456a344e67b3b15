"""What is found among keys is what counting them finds, in memory and on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.delta.reading.bounds import Bound
from lakewarden.delta.reading.keys import Keys
from lakewarden.errors import ConstraintViolation, LakewardenError, StorageUnavailable
from lakewarden.tables.keys import seen_keys
from lakewarden.tables.keys.seen_keys import SeenKeys
from tests.fixtures.examples import examples

_VALUES: Mapping[pa.DataType, Sequence[object]] = {
    pa.int64(): [0, -1, 2**62, -(2**62), 7],
    pa.string(): ["", "a", "A", "ä", "a\0b", "a "],
    pa.timestamp("us", "UTC"): [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)],
    pa.date32(): [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
    pa.decimal128(38, 2): [Decimal("0.01"), Decimal("-999999999999999999999999999999999999.99")],
    pa.binary(): [b"", b"\0", b"\xff\0"],
    pa.bool_(): [True, False],
}


@st.composite
def _parts(draw: st.DrawFn) -> tuple[list[pa.Table], list[pa.Table]]:
    """Rows with a key of some columns, and others with such a key."""
    kinds = draw(st.lists(st.sampled_from(list(_VALUES)), min_size=1, max_size=2))
    schema = pa.schema({"v": pa.int8()} | {f"c{place}": kind for place, kind in enumerate(kinds)})
    key = st.fixed_dictionaries({f"c{place}": st.sampled_from(_VALUES[kind]) for place, kind in enumerate(kinds)})
    part = st.lists(key, max_size=4).map(lambda rows: pa.Table.from_pylist([{"v": 1, **row} for row in rows], schema))
    parts = st.lists(part, max_size=4)
    return draw(parts), draw(parts)


def _keys(parts: list[pa.Table], key: list[str]) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in key) for part in parts for row in part.to_pylist()]


@settings(max_examples=examples(20))
@given(_parts(), st.sampled_from([0, 3, 1000]))
def test_keys_that_come_twice_or_that_others_have(parts: tuple[list[pa.Table], list[pa.Table]], at_once: int) -> None:
    mine, others = parts
    names = next((part.column_names[1:] for part in (*mine, *others)), ["c0"])
    expected, theirs = Counter(_keys(mine, names)), set(_keys(others, names))
    with SeenKeys(names, at_once) as seen:
        for part in mine:
            seen.add(part)
        assert seen.repeated() == expected.total() - len(expected)
        found = seen.first_of(others)
        assert (found is not None) == bool(theirs & expected.keys())
        assert found is None or found in theirs & expected.keys()
        for bound in seen.bounds:
            column = [key[names.index(bound.column)] for key in expected]
            assert (bound.low, bound.high) == (min(column), max(column))  # type: ignore[type-var]
        assert seen.first_of([]) is None
        assert (seen.rows, Counter(_keys(list(seen.parts()), names))) == (expected.total(), expected)


@pytest.mark.parametrize("at_once", [0, 1000])
def test_a_key_that_comes_twice_is_an_error(at_once: int) -> None:
    with SeenKeys(["id"], at_once) as seen:
        seen.add(pa.table({"id": pa.array([1, 2, None], pa.int64())}))
        seen.check_once()
        seen.add(pa.table({"id": pa.array([None], pa.int64())}))
        with pytest.raises(ConstraintViolation, match=r"a key \(id\)"):
            seen.check_once()


def test_equal_keys_stand_in_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_keys, "_BATCH_ROWS", 2048)
    with SeenKeys(["id"], 0) as seen:
        seen.add(pa.table({"id": np.arange(-1, 3000)}))
        assert seen.first_of([pa.table({"id": [2046, 9000]})]) == (2046,), "in order, 2048 of these keys end with it"
        seen.add(pa.table({"id": np.arange(3000)}))
        assert seen.repeated() == 3000, "each second row begins a pair, so each part ends within one"


def test_bounds_are_around_the_keys_of_all_parts() -> None:
    with SeenKeys(["id", "done"]) as seen:
        assert not seen.bounds
        for ids in ([3, 5], [1, 2], [9], []):
            seen.add(pa.table({"id": pa.array(ids, pa.int64()), "done": pa.array([True] * len(ids))}))
        assert seen.bounds == (Bound("id", 1, 9),)


def test_what_reading_raises_comes_as_it_is() -> None:
    class Broken(LakewardenError):
        pass

    def parts() -> Iterator[pa.Table]:
        yield pa.table({"id": [1]})
        raise Broken("here")

    with SeenKeys(["id"], 0) as seen:
        seen.add(pa.table({"id": [1]}))
        with pytest.raises(Broken):
            seen.first_of(parts())


@pytest.mark.slow
def test_keys_beyond_memory_go_to_files_that_end_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_keys, "_MEMORY", "24MB")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with SeenKeys(["id"], 0) as seen:
        for first in range(0, 3_000_000, 500_000):
            seen.add(pa.table({"id": np.arange(first, first + 500_000)}))
        assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) > 1 << 20
        seen.add(pa.table({"id": [77]}))
        assert seen.repeated() == 1
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with SeenKeys(["id"], 0) as seen:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
        with pytest.raises(StorageUnavailable, match="nothing was written"):
            seen.add(pa.table({"id": [1]}))
    assert gettempdir() == str(tmp_path / "none")


class _CountedStores:
    """Counts how often keys go to disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        store = SeenKeys._store

        def counted(seen: SeenKeys, name: str, keys: pa.Table) -> None:
            self.names.append(name)
            store(seen, name, keys)

        monkeypatch.setattr(SeenKeys, "_store", counted)


@pytest.mark.slow
def test_keys_of_many_small_files_go_to_disk_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_keys, "_BATCH_ROWS", 1000)
    stores = _CountedStores(monkeypatch)
    small = [pa.table({"id": np.arange(first, first + 10)}) for first in range(0, 10_000, 10)]
    with SeenKeys(["id"], 2000) as seen:
        for part in small:
            seen.add(part)
        assert seen.repeated() == 0
        assert len(stores.names) <= 10, "2,000 keys and then 1,000 at a time, and not one file after the other"
        before = len(stores.names)
        assert seen.first_of(pa.table({"id": np.arange(first, first + 10)}) for first in range(20_000, 30_000, 10)) is None
        assert stores.names[before:] == ["others"] * 10
        assert sum(part.num_rows for part in seen.parts()) == 10_000


def test_long_keys_go_to_disk_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_keys, "_MOST_BYTES", 10_000)
    stores = _CountedStores(monkeypatch)
    with SeenKeys(["id"]) as seen:
        for first in range(0, 100, 10):
            seen.add(pa.table({"id": [f"{number:0200}" for number in range(first, first + 10)]}))
        assert stores.names == ["keys"] * 2, "five parts of some 2,000 bytes each time"
        seen.add(pa.table({"id": [f"{7:0200}"]}))
        assert seen.repeated() == 1


def test_others_in_many_small_parts_are_compared_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_keys, "_BATCH_ROWS", 1000)
    looked: list[int] = []
    places = Keys.places

    def counted(keys: Keys, others: pa.Table) -> object:
        looked.append(others.num_rows)
        return places(keys, others)

    monkeypatch.setattr(Keys, "places", counted)
    with SeenKeys(["id", "day"]) as seen:
        seen.add(pa.table({"id": np.arange(5000), "day": np.arange(5000) % 7}))
        others = [pa.table({"id": np.arange(first, first + 10), "day": [9] * 10}) for first in range(0, 5000, 10)]
        assert seen.first_of(others) is None
    assert looked == [1000] * 5, "each look-up builds a table of all keys"
