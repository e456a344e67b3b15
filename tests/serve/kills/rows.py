"""What is in the tables beside what clients know of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lakewarden.client import Lakehouse
from lakewarden.sql.results import Result, ResultRows
from tests.serve.http.live.follower import LAST
from tests.serve.kills.load import KEYED, PLAIN, Client, Known

Row = tuple[object, object]
"""An id and a value, if the table has values."""


def keyed_rows(lake: Lakehouse, user: str) -> list[Row]:
    return _rows(lake.sql(f"SELECT id, v FROM {KEYED} WHERE id <> {LAST}", user=user, role="user")[0])


def plain_rows(lake: Lakehouse) -> list[Row]:
    return _rows(lake.sql(f"SELECT id FROM {PLAIN} WHERE id <> {LAST}")[0])


def _rows(found: Result) -> list[Row]:
    assert isinstance(found, ResultRows)
    return [(row["id"], row.get("v")) for row in found.to_pylist()]


def wrong_rows(lake: Lakehouse, clients: Sequence[Client]) -> dict[str, str]:
    """Rows that are not what their client knows of them, each with what is there."""
    return {**_keyed(lake, clients), **_plain(lake, clients)}


def _keyed(lake: Lakehouse, clients: Sequence[Client]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for client in clients:
        there: dict[object, list[object]] = {}
        for key, value in keyed_rows(lake, client.user):
            there.setdefault(key, []).append(value)
        wrong |= {f"{KEYED} {key}": f"{there.get(key)}, not {known}" for key, known in _off(client.rows, there)}
        wrong |= {f"{KEYED} {key}": "nobody wrote it" for key in there.keys() - client.rows.keys()}
    return wrong


def _off(rows: Mapping[int, Known], there: Mapping[object, list[object]]) -> Iterator[tuple[int, Known]]:
    for key, known in rows.items():
        values = there.get(key, [None])
        if len(values) != 1 or values[0] not in known:
            yield key, known


def _plain(lake: Lakehouse, clients: Sequence[Client]) -> dict[str, str]:
    there = Counter(key for key, _ in plain_rows(lake))
    allowed = {key: known for client in clients for key, known in client.plain.items()}
    wrong = {f"{PLAIN} {key}": f"{there[key]} times, not {known}" for key, known in allowed.items() if there[key] not in known}
    return wrong | {f"{PLAIN} {key}": "nobody wrote it" for key in there.keys() - allowed.keys()}
