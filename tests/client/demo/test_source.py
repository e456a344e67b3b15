"""The demo's two waves are cut so that their end is known: every flight that has a tail number and did leave."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakewarden.client.demo_tables import ACTUALS, KEY, USER_COLUMN, Waves, read, read_waves

AIRCRAFT = 4_043
FLOWN = 328_521
"""Lines of the file with a tail number and a departure time."""


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def waves() -> Waves:
    return read_waves()


def keys(*tables: pa.Table) -> set[object]:
    """User and key of each row as one text: a third of a million tuples take seconds."""
    rows = pa.concat_tables([table.select([USER_COLUMN, *KEY]) for table in tables])
    texts = [column.cast(pa.string()) for column in rows.columns]
    joined = pc.call_function("binary_join_element_wise", [*texts, pa.scalar("\x1f")])
    return set(joined.to_pylist())


def test_what_remains_is_every_flight_that_left(waves: Waves) -> None:
    flights = read("flights")
    flown = flights.filter(pc.and_(pc.is_valid(flights["dep_time"]), pc.is_valid(flights[USER_COLUMN])))
    assert keys(waves.first, waves.second) - keys(waves.cancelled) == keys(flown)
    assert waves.result == flown.num_rows == FLOWN


def test_every_aircraft_gets_a_scope(waves: Waves) -> None:
    assert waves.scopes == AIRCRAFT
    assert waves.without_tail_number == read("flights").num_rows - FLOWN - waves.cancelled.num_rows


def test_the_second_wave_updates_inserts_and_deletes(waves: Waves) -> None:
    there = keys(waves.first)
    assert keys(waves.cancelled) < there
    assert 0 < len(keys(waves.second) & there) < waves.second.num_rows


def test_september_is_planned_at_first(waves: Waves) -> None:
    planned = waves.first.filter(pc.equal(waves.first["month"], pa.scalar(9)))
    assert all(planned[name].null_count == planned.num_rows for name in ACTUALS)


def test_a_busy_aircraft_differs_between_the_waves(waves: Waves) -> None:
    tail = waves.busiest()
    assert waves.after_first(tail).num_rows > 0
    assert keys(waves.after_both(tail)) != keys(waves.after_first(tail))


def test_a_sample_is_spread_over_all_aircraft() -> None:
    sample = read_waves(aircraft=40)
    assert 40 <= sample.scopes <= 41
    assert 0 < sample.result < FLOWN
