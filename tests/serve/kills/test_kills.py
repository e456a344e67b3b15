"""A sample of the campaign (`python -m tests.serve.kills`, in `make torture` for ten minutes)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import httpx
import pytest

from lakewarden import Lakehouse
from tests.serve.kills.campaign import TABLES, Campaign, wrong_rows
from tests.serve.kills.load import KEYED, PLAIN, Client


@pytest.mark.slow
@pytest.mark.disk
def test_every_acknowledged_row_is_there_once(tmp_path: Path) -> None:
    found = Campaign(tmp_path, seed=1, seconds=9.0, kill_every=3.0).run()
    assert found.wrong == {}
    assert found.acknowledged >= 3
    assert found.kills == 3


def test_a_row_that_is_lost_doubled_or_changed_is_seen(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w")) as lake, httpx.Client() as unused:
        lake.sql(TABLES)
        lake.table(KEYED).write([{"id": 1, "v": 5}, {"id": 2, "v": 6}, {"id": 3, "v": 7}, {"id": 9, "v": 9}], user="u0")
        lake.sql(f"INSERT INTO {PLAIN} VALUES (1), (1), (2), (2), (3), (9)")
        rows = {1: (5,), 2: (1, 6), 3: (8,), 4: (1,), 5: (None,)}
        known = Client(0, unused, Random(0), {**rows}, {1: (1,), 2: (0, 1), 3: (0, 1), 4: (1,)})
        wrong = wrong_rows(lake, [known])
    assert wrong.keys() == {*(f"{KEYED} {key}" for key in (3, 4, 9)), *(f"{PLAIN} {key}" for key in (1, 2, 4, 9))}
