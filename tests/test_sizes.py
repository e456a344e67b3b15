"""Bytes as people read them."""

from __future__ import annotations

import pytest

from lakewarden.base.quantities import in_units
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


def test_tables_have_units_and_json_has_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    row: Row = {"files": 2048, "bytes": 2048, "used_bytes": 1, "oldest_pending_age": 90.4, "metrics": {"numOutputBytes": 3 << 20}}
    emit([row], as_json=False)
    shown = " ".join(capsys.readouterr().out.splitlines()[1].split())
    assert shown == "2048 2.0 KiB 1 B 90 s numOutputBytes=3.0 MiB"
    emit([row], as_json=True)
    assert '"bytes": 2048, "used_bytes": 1, "oldest_pending_age": 90.4' in capsys.readouterr().out
