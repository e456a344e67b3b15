"""One warehouse for a module's tests: each works on tables of its own in the bucket `kb-prod`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.client.k3 import K3


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.k3.create_bucket("kb-prod")
        yield opened


@pytest.fixture(scope="module")
def k3(lake: Lakehouse) -> K3:
    return lake.k3
