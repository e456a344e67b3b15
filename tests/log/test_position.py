from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.log.position import LAST_POSITION, NOTHING, ORDINALS, end_of, position_of, seq_of, whole

positions = st.integers(0, LAST_POSITION)
ordinals = st.integers(0, ORDINALS - 1)
buckets = st.integers(0, 255)


@given(positions, ordinals, buckets)
def test_a_seq_lies_in_its_position(position: int, ordinal: int, bucket: int) -> None:
    seq = seq_of(position, ordinal, bucket)
    assert position_of(seq) == position
    assert end_of(position - 1) < seq <= end_of(position) < 1 << 63


@given(positions, ordinals, positions, ordinals)
def test_seqs_are_in_the_order_of_positions_then_ordinals(p: int, i: int, q: int, j: int) -> None:
    assert (seq_of(p, i) < seq_of(q, j)) == ((p, i) < (q, j))


@given(positions, ordinals)
def test_whole_takes_only_positions_that_are_through(position: int, ordinal: int) -> None:
    assert whole(end_of(position)) == end_of(position)
    assert whole(seq_of(position, ordinal)) == end_of(position - 1)


def test_before_the_first_there_is_nothing() -> None:
    assert end_of(NOTHING) == NOTHING
    assert whole(NOTHING) == NOTHING
