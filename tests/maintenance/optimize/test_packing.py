"""Which files an optimize packs, and when it is not worth it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.delta.parquet.files import DataFile
from lakewarden.tables.upkeep_files import CLUSTERED_BYTES, FULL, first_fit, not_worth_it, pack_files, runs_to_cluster

_TARGET = 100


def _files(*sizes: int) -> list[DataFile]:
    return [DataFile(f"f{place:03}", size, 1, 0, place, place) for place, size in enumerate(sizes)]


def _sizes(*sizes: int) -> list[list[int]]:
    return [[file.size for file in packed] for packed in pack_files(_files(*sizes), _TARGET).bins]


def test_small_files_become_one_up_to_the_target() -> None:
    assert _sizes(10, 20, 30) == [[10, 20, 30]]
    assert _sizes(40, 40, 40, 40, 10) == [[40, 40, 10], [40, 40]]


def test_a_file_of_three_quarters_is_full() -> None:
    packing = pack_files(_files(75, 10, 10), _TARGET)
    assert [file.size for file in packing.full] == [75]
    assert [[file.size for file in packed] for packed in packing.bins] == [[10, 10]]


def test_a_file_without_a_partner_stays() -> None:
    packing = pack_files(_files(70, 60, 80), _TARGET)
    assert packing.bins == ()
    assert not_worth_it(packing, 0.0) == "none of its 3 files can be packed: 1 full, 2 without a partner that fits"


def test_one_file_has_nothing_to_pack() -> None:
    assert not_worth_it(pack_files(_files(1), _TARGET), 0.0) == "it has 1 file"


def test_a_gain_below_the_bound_is_not_worth_it() -> None:
    packing = pack_files(_files(10, 10, *[80] * 8), _TARGET)
    assert not_worth_it(packing, 0.1) == ""
    said = "rewriting 20 B would save 1 of 10 files (10%), below the 25% that make it worth while"
    assert not_worth_it(packing, 0.25) == said


@given(st.lists(st.integers(0, 150), max_size=60))
def test_what_always_holds(sizes: list[int]) -> None:
    files = _files(*sizes)
    packing = pack_files(files, _TARGET)
    assert sorted([*packing.inputs, *packing.full, *packing.alone], key=lambda file: file.path) == files
    assert all(len(packed) > 1 and sum(file.size for file in packed) <= _TARGET for packed in packing.bins)
    assert all(file.size < FULL * _TARGET for file in packing.inputs)
    assert packing.bytes <= _TARGET * packing.saved
    assert not any(a.size + b.size <= _TARGET for a in packing.alone for b in packing.alone if a is not b)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, CLUSTERED_BYTES * 2)), max_size=12))
def test_a_z_order_holds_no_more_than_a_bounded_run_of_one_partition(given_files: list[tuple[str, int]]) -> None:
    files = [
        DataFile(f"f{place:03}", size, 1, 0, place, place, partition=(("p", value),))
        for place, (value, size) in enumerate(given_files)
    ]
    runs = runs_to_cluster(files, _TARGET)
    assert sorted(file for run in runs for file in run) == files
    for run in runs:
        assert len({file.partition for file in run}) == 1
        assert len(run) == 1 or sum(file.size for file in run) <= CLUSTERED_BYTES
    for value in "ab":
        own = [run for run in runs if run[0].partition == (("p", value),)]
        assert all(sum(map(_size, early)) + later[0].size > CLUSTERED_BYTES for early, later in pairwise(own))


def _size(file: DataFile) -> int:
    return file.size


@given(st.lists(st.integers(0, _TARGET), max_size=80))
def test_each_size_is_in_the_first_bin_with_room(sizes: list[int]) -> None:
    """Beside what tries bin after bin."""
    rooms, expected = [_TARGET] * (len(sizes) + 1), []
    for size in sizes:
        place = next(number for number, room in enumerate(rooms) if room >= size)
        rooms[place] -= size
        expected.append(place)
    assert first_fit(sizes, _TARGET) == expected
