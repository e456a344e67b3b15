"""Bytes and lengths of time as people read them."""

from __future__ import annotations

import pytest

from lakewarden.base.quantities import in_units, lasting
from lakewarden.cli.output import Row, emit


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (252 * 1024**3, "252.0 GiB"),
        (5000 * 1024**6, "5,000.0 EiB"),
    ],
)
def test_a_size_is_in_the_largest_unit(size: int, text: str) -> None:
    assert in_units(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (119.9, "1 min 59 s"),
        (3_599, "59 min 59 s"),
        (12_000, "3 h 20 min"),
        (86_399, "23 h 59 min"),
        (5 * 86_400, "5 d"),
        (1_000 * 86_400 + 7_200, "1,000 d 2 h"),
    ],
)
def test_a_length_of_time_is_in_the_two_largest_units(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


def test_tables_have_units_and_json_has_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    row: Row = {"files": 2048, "bytes": 2048, "used_bytes": 1, "oldest_pending_age": 90.4, "metrics": {"numOutputBytes": 3 << 20}}
    emit([row], as_json=False)
    shown = " ".join(capsys.readouterr().out.splitlines()[1].split())
    assert shown == "2048 2.0 KiB 1 B 1 min 30 s numOutputBytes=3.0 MiB"
    emit([row], as_json=True)
    assert '"bytes": 2048, "used_bytes": 1, "oldest_pending_age": 90.4' in capsys.readouterr().out
