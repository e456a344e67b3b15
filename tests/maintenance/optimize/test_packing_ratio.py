"""With a ratio a packing leaves what it packed, until the smaller files are large beside it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.delta.parquet.files import DataFile
from lakewarden.tables.upkeep_files import pack_files, why_not
from tests.fixtures.examples import examples

TARGET = 1_000


def _files(sizes: list[int]) -> list[DataFile]:
    return [DataFile(f"f{at}", size, 1, 0, at, at) for at, size in enumerate(sizes)]


def _packed(sizes: list[int], ratio: float) -> list[int]:
    return sorted(file.size for file in pack_files(_files(sizes), TARGET, ratio).inputs)


def test_what_was_packed_waits_until_the_others_are_large() -> None:
    assert _packed([400, 20, 20, 20], 3.0) == [20, 20, 20]
    assert _packed([400, 20, 20, 20], 0.0) == [20, 20, 20, 400]
    assert _packed([400, 60, 60, 20], 3.0) == [20, 60, 60, 400]
    assert pack_files(_files([400, 20, 20]), TARGET, 3.0).left() == "1 large beside the others"


@settings(max_examples=examples(300))
@given(st.lists(st.integers(1, 1_200), max_size=10), st.sampled_from([0.5, 1.0, 3.0]))
def test_each_file_is_in_one_place_and_none_is_packed_that_the_ratio_leaves(sizes: list[int], ratio: float) -> None:
    found = pack_files(_files(sizes), TARGET, ratio)
    assert sorted(one.path for one in (*found.inputs, *found.full, *found.alone, *found.large)) == sorted(
        one.path for one in _files(sizes)
    )
    small = sorted((one.size for one in (*found.inputs, *found.alone, *found.large)), reverse=True)
    left = len(found.large)
    assert all(small[at] > ratio * sum(small[at + 1 :]) for at in range(left))
    assert left == len(small) or small[left] <= ratio * sum(small[left + 1 :])
    again = pack_files(found.inputs, TARGET).bins
    assert {frozenset(one.path for one in each) for each in again} == {
        frozenset(one.path for one in each) for each in found.bins
    }, "a plan that is applied packs the same files into the same"
    assert why_not(_files(sizes), TARGET, 0.25, ratio) or not why_not(_files(sizes), TARGET, 0.25)
