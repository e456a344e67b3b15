"""What statistics of files in a log say, rounded outwards."""

from __future__ import annotations

import json

from lakewarden.delta.parquet.stats import bounds_of, said_ends

_SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "at", "type": "timestamp", "nullable": True, "metadata": {}}]})


def test_an_end_of_the_calendar_takes_no_bounds_from_other_files() -> None:
    """A moment that ends in milliseconds may be up to a millisecond later, which Python's calendar does not have here."""
    last, other = (
        said_ends(json.dumps({"numRecords": 1, "minValues": {"at": at}, "maxValues": {"at": at}}))
        for at in ("9999-12-31T23:59:59.999Z", "2026-05-01T12:00:00.000Z")
    )
    bounds = bounds_of(_SCHEMA, "at", [last, other])
    assert bounds is not None
    lowest, highest = bounds
    assert highest[0] is None
    assert [str(end[1])[:10] for end in (lowest, highest)] == ["2026-05-01"] * 2
