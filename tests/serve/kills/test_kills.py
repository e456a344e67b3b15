"""A sample of the campaign (`python -m tests.serve.kills`, in `make torture` for ten minutes)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import httpx
import pytest

from lakewarden import Lakehouse
from tests.serve.http.live.events import Told
from tests.serve.kills.campaign import TABLES, Campaign
from tests.serve.kills.heard import wrong_events
from tests.serve.kills.load import KEYED, PLAIN, Change, Client, Written
from tests.serve.kills.rows import wrong_rows


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.parametrize(("kills", "every"), [(1, 2.0), pytest.param(3, 3.0, marks=pytest.mark.night)])
def test_every_acknowledged_row_is_there_once_and_was_heard_once(tmp_path: Path, kills: int, every: float) -> None:
    found = Campaign(tmp_path, seed=1, seconds=kills * every, kill_every=every).run()
    assert found.wrong == {}
    assert found.acknowledged >= kills
    assert found.heard >= found.acknowledged
    assert found.kills == kills


def test_a_row_that_is_lost_doubled_or_changed_is_seen(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w")) as lake, httpx.Client() as unused:
        lake.sql(TABLES)
        lake.table(KEYED).write([{"id": 1, "v": 5}, {"id": 2, "v": 6}, {"id": 3, "v": 7}, {"id": 9, "v": 9}], user="u0")
        lake.sql(f"INSERT INTO {PLAIN} VALUES (1), (1), (2), (2), (3), (9)")
        rows = {1: (5,), 2: (1, 6), 3: (8,), 4: (1,), 5: (None,)}
        known = Client(0, unused, Random(0), {**rows}, {1: (1,), 2: (0, 1), 3: (0, 1), 4: (1,)})
        wrong = wrong_rows(lake, [known])
    assert wrong.keys() == {*(f"{KEYED} {key}" for key in (3, 4, 9)), *(f"{PLAIN} {key}" for key in (1, 2, 4, 9))}


_FIRST, _SECOND = Change("insert", 1, 5), Change("update", 1, 6)
_LOST, _GONE = Change("insert", 2, 7), Change("delete", 1, None)
_WRITER = [Written(KEYED, _FIRST, True), Written(KEYED, _SECOND, True), Written(KEYED, _LOST, False)]


def _heard(*changes: Change) -> list[Told]:
    rows = [{"id": each.id} if each.value is None else {"id": each.id, "v": each.value} for each in changes]
    return [
        Told(each.kind, str(seq), {"seq": seq, "row": {**row}}) for seq, (each, row) in enumerate(zip(changes, rows, strict=True))
    ]


@pytest.mark.parametrize(
    ("heard", "there", "said"),
    [
        ([_FIRST, _SECOND], {1: 6}, []),
        ([_FIRST, _SECOND, _LOST], {1: 6, 2: 7}, []),
        ([_SECOND], {1: 6}, [f"{_FIRST} heard 0 times"]),
        ([_FIRST, _SECOND, _SECOND], {1: 6}, [f"{_SECOND} heard 2 times"]),
        ([_FIRST, _SECOND, _LOST, _LOST], {1: 6, 2: 7}, [f"{_LOST} heard 2 times"]),
        ([_FIRST, _SECOND, _GONE], {}, [f"{_GONE} heard, but never written"]),
        ([_SECOND, _FIRST], {1: 5}, [f"heard in another order than it was acknowledged: {[_FIRST, _SECOND]}"]),
        ([_FIRST, _SECOND], {1: 6, 2: 7}, ["what was heard adds up to {1: 6}, and the table has {1: 6, 2: 7}"]),
    ],
)
def test_what_is_missed_repeated_or_out_of_order_is_seen(
    heard: list[Change], there: dict[object, object], said: list[str]
) -> None:
    assert [*wrong_events(_heard(*heard), [_WRITER], there)] == said


def test_events_whose_places_do_not_ascend_are_seen() -> None:
    first, second = _heard(_FIRST, _SECOND)
    again = second._replace(data=first.data | {"row": second.data["row"]})
    assert [*wrong_events([first, again], [_WRITER], {1: 6})] == ["0 heard after 0"]
