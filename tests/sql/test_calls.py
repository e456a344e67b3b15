"""How many calls of Python a look-up and an INSERT take beside the same work by the client of a table: counts, not times."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

import lakewarden
from lakewarden import Lakehouse
from lakewarden.sql.session import SqlSession

_PACKAGE = str(Path(lakewarden.__file__).parent)


def _calls(work: Callable[[], object], *, own: bool) -> int:
    """The fewest of some runs, in this thread, once all is warm; `own` leaves those of libraries out."""

    def counted() -> int:
        found = 0

        def called(frame: FrameType, event: str, _: object) -> None:
            nonlocal found
            found += event == "call" and (not own or frame.f_code.co_filename.startswith(_PACKAGE))

        sys.setprofile(called)
        try:
            work()
        finally:
            sys.setprofile(None)
        return found

    for _ in range(3):
        work()
    return min(counted() for _ in range(4))


@pytest.fixture
def session(warehouse_uri: str) -> Iterator[SqlSession]:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, v TEXT, n INT)")
        lake.table("app.t").write([{"id": number, "v": f"v{number}", "n": number} for number in range(100)], user="ann")
        lake.flush()
        yield lake.session(user="ann", role="service")


# What is allowed is some twentieth more than what there is: a call more in each step is seen.
@pytest.mark.disk
def test_a_look_up_takes_few_calls_more_than_a_read(session: SqlSession) -> None:
    """The text differs each time in its literal, as those of a client do."""
    table, numbers = session.table("app.t"), count()

    def look_up() -> object:
        return session.sql(f"SELECT v, n FROM app.t WHERE id = {next(numbers)}")

    read, looked_up = (_calls(work, own=True) for work in (table.read, look_up))
    assert read <= 232
    assert looked_up <= 300
    assert looked_up <= 1.3 * read, (looked_up, read)
    read, looked_up = (_calls(work, own=False) for work in (table.read, look_up))
    assert looked_up - read <= 80, (looked_up, read)


@pytest.mark.disk
def test_an_insert_takes_few_calls_more_than_a_write(session: SqlSession) -> None:
    table, numbers = session.table("app.t"), count(1000)
    write = _calls(lambda: table.write([{"id": next(numbers), "v": "x", "n": 1}], mode="insert"), own=True)
    insert = _calls(lambda: session.sql(f"INSERT INTO app.t (id, v, n) VALUES ({next(numbers)}, 'x', 1)"), own=True)
    assert write <= 422
    assert insert <= 545
    assert insert - write <= 130, (insert, write)
