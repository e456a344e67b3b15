"""A warehouse with a SHARED table without a primary key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.tables.client import TableClient
from tests.fixtures.clock import Clock
from tests.tables.direct.boards import EVENTS, make_events


@pytest.fixture
def lake(warehouse_uri: str, clock: Clock) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri, clock=clock) as opened:
        make_events(opened)
        yield opened


@pytest.fixture
def events(lake: Lakehouse) -> TableClient:
    return lake.table(EVENTS)
