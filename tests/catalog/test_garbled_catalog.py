"""A bit of a catalog version that turned over is found."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from lakewarden.catalog.changes.objects import first_catalog
from lakewarden.catalog.store import CatalogVersion, decode, encode
from lakewarden.errors import Corrupt


def test_no_bit_makes_another_catalog() -> None:
    written = CatalogVersion(first_catalog(), ("a", "b"), datetime(2026, 5, 1, tzinfo=UTC))
    data = encode(written)
    assert decode(data, "v1") == written
    for at in range(len(data)):
        for bit in range(8):
            with suppress(Corrupt):
                assert decode(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], "v1") == written, (at, bit)
