"""K3's calls through each client, and a bucket for each test."""

from __future__ import annotations

from itertools import count

import httpx
import pytest

from lakewarden import Lakehouse
from tests.serve.http.clients import Call, generate_client, generated, stock

_NUMBERS = count()


@pytest.fixture(scope="session")
def _generated(tmp_path_factory: pytest.TempPathFactory) -> None:
    generate_client(tmp_path_factory.mktemp("client"))


@pytest.fixture(params=["stock", "generated"])
def k3(request: pytest.FixtureRequest, operator: httpx.Client) -> Call:
    if request.param == "stock":
        return stock(operator)
    request.getfixturevalue("_generated")
    return generated(str(operator.base_url), operator.headers["Authorization"].removeprefix("Bearer "))


@pytest.fixture
def bucket(lake: Lakehouse) -> str:
    name = f"b{next(_NUMBERS)}"
    lake.k3.create_bucket(name)
    return name
