"""Days and moments as text, beside DuckDB, which has the same calendar."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import duckdb
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakewarden.base.any_year import INFINITE_DAY, INFINITE_MOMENT, civil, day_text, moment_text
from tests.fixtures.examples import examples

_EPOCH = date(1970, 1, 1)
_CONNECTION = duckdb.connect()


@settings(max_examples=examples(100))
@given(st.integers(-2_147_000_000, 2_146_000_000))
@example(-719_529)  # the last day of 1 BC
@example(-719_528)
def test_a_day_is_the_one_that_duckdb_has(days: int) -> None:
    found = _CONNECTION.execute(
        "SELECT year(d), month(d), day(d) FROM (SELECT DATE '1970-01-01' + ?::INT AS d)", [days]
    ).fetchall()
    assert civil(days) == found[0]


@settings(max_examples=examples(100))
@given(st.datetimes())
def test_a_moment_of_pythons_calendar_is_as_python_writes_it(moment: datetime) -> None:
    micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)  # noqa: DTZ001  # of no zone
    assert moment_text(micros) == moment.isoformat(timespec="microseconds")
    assert day_text(moment.date().toordinal() - _EPOCH.toordinal()) == moment.date().isoformat()


def test_years_outside_pythons_calendar_and_infinity_have_a_text() -> None:
    assert day_text(-735_160) == "-0043-03-15"
    assert day_text(2_932_897) == "10000-01-01"
    assert moment_text(-1) == "1969-12-31T23:59:59.999999"
    assert moment_text(-735_160 * 86_400_000_000, " ") == "-0043-03-15 00:00:00.000000"
    assert [day_text(INFINITE_DAY), day_text(-INFINITE_DAY)] == ["infinity", "-infinity"]
    assert [moment_text(INFINITE_MOMENT), moment_text(-INFINITE_MOMENT)] == ["infinity", "-infinity"]
