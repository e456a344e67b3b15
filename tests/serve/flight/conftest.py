"""The service of Flight SQL in this process, and ADBC's driver in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from adbc_driver_flightsql import DatabaseOptions, dbapi

from lakewarden import Lakehouse
from lakewarden.serve.common import Common, Listening
from lakewarden.serve.flight.service import served
from tests.serve.conftest import PASSWORD

Connect = Callable[[str], dbapi.Connection]


@pytest.fixture(scope="module")
def flight(lake: Lakehouse) -> Iterator[str]:
    with served(Common.of(lake), Listening("127.0.0.1", 0, flight_port=0)) as port:
        yield f"grpc://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def tokens(lake: Lakehouse) -> Callable[[str], str]:
    authority = Common.of(lake).authority
    return lambda user: authority.login(user, PASSWORD, "127.0.0.1").access_token


@pytest.fixture(scope="module")
def connected(flight: str, tokens: Callable[[str], str]) -> Iterator[Connect]:
    """Connections by name of their user, who logs in over HTTP: a driver's own login is a second of a core."""
    made: dict[str, dbapi.Connection] = {}

    def connect(user: str) -> dbapi.Connection:
        if user not in made:
            header = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {tokens(user)}"}
            made[user] = dbapi.connect(flight, db_kwargs=header, autocommit=True)
        return made[user]

    yield connect
    for one in made.values():
        one.close()


@pytest.fixture
def cursor(connected: Connect) -> Iterator[dbapi.Cursor]:
    with connected("ann").cursor() as made:
        yield made
