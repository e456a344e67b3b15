"""What another process appends between a change's reading and its append: the change is as if it had been made after that."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewarden import Lakehouse
from lakewarden.errors import Conflict, LakewardenError
from lakewarden.log.objects.gather import Gathering
from lakewarden.sql.results import AffectedRows
from lakewarden.tables.client import appending
from lakewarden.tables.rows.intake import RowParts
from tests.fixtures.bucket import fresh_place
from tests.fixtures.examples import campaign

TABLES = """
    CREATE NAMESPACE app;
    CREATE SHARED TABLE app.ours (id BIGINT PRIMARY KEY, n BIGINT, t TEXT);
    CREATE TABLE app.mine (id BIGINT PRIMARY KEY, n BIGINT, t TEXT) WITH (TYPE = 'USER');
"""
ROWS = "INSERT INTO {table} VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, NULL), (4, NULL, 'd')"

PARTS = "parts of {key} and {n}"
"""Stands for rows that are written in parts, as those that do not fit into memory."""

CHANGES = (
    "UPDATE {table} SET n = n + 1 WHERE id = {key}",
    "UPDATE {table} SET t = t || '!' WHERE id BETWEEN {key} AND 3",
    "UPDATE {table} SET n = 0 WHERE n > {n}",
    "UPDATE {table} SET t = 'all' WHERE true",
    "UPDATE {table} SET n = (SELECT max(n) FROM {table}) WHERE id = {key}",
    "DELETE FROM {table} WHERE id = {key}",
    "DELETE FROM {table} WHERE id IN ({key}, 5)",
    "DELETE FROM {table} WHERE n = {n} OR t = 'b'",
    "INSERT INTO {table} VALUES ({key}, {n}, 'new')",
    "INSERT INTO {table} VALUES ({key}, {n}, 'new') ON CONFLICT (id) DO UPDATE SET n = n + 100",
    "INSERT INTO {table} SELECT i, {n}, 'many' FROM range({key}, {key} + 120) r(i)",
    PARTS,
)
BETWEEN = (
    "INSERT INTO {table} VALUES ({key}, {n}, 'between') ON CONFLICT (id) DO UPDATE SET n = {n}, t = 'between'",
    "DELETE FROM {table} WHERE id = {key}",
    "UPDATE {table} SET n = {n} WHERE id = {key}",
)
_KEYS, _NUMBERS = st.integers(1, 6), st.sampled_from((10, 20, 25, 30))

Texts = st.tuples(st.sampled_from(BETWEEN), _KEYS, _NUMBERS)
Others = st.lists(Texts | st.sampled_from(("flush", "others")), min_size=1, max_size=3)


class Between:
    """Lets something run right before the next append that depends on what was read."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self._next: list[Callable[[], object]] = []
        append = Gathering.append

        def after_others(gathering: Gathering, parcels: object, after: int | None = None, keys: object = None) -> object:
            if after is not None and self._next:
                self._next.pop()()
            return append(gathering, parcels, after, keys)  # type: ignore[arg-type]

        patched.setattr(Gathering, "append", after_others)

    def runs(self, work: Callable[[], object]) -> None:
        self._next = [work]

    def has_run(self) -> bool:
        """Whether it ran; if not, it never will."""
        waits, self._next = bool(self._next), []
        return not waits


@pytest.fixture(scope="module")
def between() -> Iterator[Between]:
    with pytest.MonkeyPatch.context() as patched:
        yield Between(patched)


@pytest.mark.slow
@pytest.mark.disk
@example(CHANGES[2], 1, 25, [(BETWEEN[2], 3, 10)], "app.ours", False)
@example(CHANGES[2], 1, 25, [(BETWEEN[1], 3, 10)], "app.mine", True)
@example(PARTS, 5, 25, [(BETWEEN[0], 5, 10), (BETWEEN[1], 5, 10)], "app.ours", False)
@example(PARTS, 5, 25, [(BETWEEN[0], 6, 10)], "app.mine", True)
@example(CHANGES[2], 1, 25, [(BETWEEN[2], 2, 30), "flush"], "app.ours", False)
@example(CHANGES[2], 1, 25, [(BETWEEN[2], 2, 30), "flush"], "app.mine", True)
@campaign(150, gate=40)
@given(st.sampled_from(CHANGES), _KEYS, _NUMBERS, Others, st.sampled_from(("app.ours", "app.mine")), st.booleans())
def test_a_change_is_as_if_made_after_what_came_between(
    between: Between, change: str, key: int, n: int, others: list[tuple[str, int, int] | str], table: str, flushed: bool
) -> None:
    text = change.format(table=table, key=key, n=n)
    outcomes = []
    for meets in (True, False):
        with fresh_place("disk") as place, Lakehouse.open(f"{place}/w") as lake, Lakehouse.open(f"{place}/w") as other:
            lake.sql(TABLES)
            lake.sql(ROWS.format(table=table), user="ann")
            if flushed:
                lake.flush(table)

            def work(other: Lakehouse = other) -> None:
                for each in others:
                    run(other, table, each)

            if meets:
                between.runs(work)
            else:
                work()
            outcome = outcome_of(lake, text, table)
            if meets and not between.has_run():
                return  # it had nothing to append
            outcomes.append((outcome, rows(lake, table)))
    assert outcomes[0] == outcomes[1], text


def run(lake: Lakehouse, table: str, what: tuple[str, int, int] | str) -> None:
    match what:
        case "flush":
            lake.flush(table)
        case "others":  # of a USER table, rows of somebody else
            lake.sql("INSERT INTO app.mine VALUES (1, 1, 'other')", user=f"bob{lake.warehouse.new_id()}")
        case (str() as text, key, n):
            outcome_of(lake, text.format(table=table, key=key, n=n))


def outcome_of(lake: Lakehouse, text: str, table: str = "") -> object:
    try:
        if text.startswith("parts"):
            _, _, key, _, n = text.split()
            return in_parts(lake, table, int(key), int(n))
        (result,) = lake.sql(text, user="ann")
    except LakewardenError as error:
        return error.code
    assert isinstance(result, AffectedRows)
    return result.rows


def in_parts(lake: Lakehouse, table: str, key: int, n: int) -> int:
    parts = [pa.table({"id": [key + at, key + at + 20], "n": [n, n], "t": ["part", "part"]}) for at in range(2)]
    given = RowParts(lambda: iter(parts))
    return lake.table(table).write_parts(given, user="ann" if table == "app.mine" else None, mode="insert").rows


def rows(lake: Lakehouse, table: str) -> list[tuple[object, ...]]:
    found = lake.table(table).read(user="ann" if table == "app.mine" else None).to_pylist()
    return sorted((each["id"], each["n"], each["t"]) for each in found)


@pytest.mark.parametrize("text", [CHANGES[0], CHANGES[1], CHANGES[5], CHANGES[6], CHANGES[8], CHANGES[10], PARTS])
def test_what_others_write_elsewhere_costs_no_attempt(
    between: Between, warehouse_uri: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(appending, "_ATTEMPTS", 1)
    with Lakehouse.open(warehouse_uri) as lake, Lakehouse.open(warehouse_uri) as other:
        lake.sql(TABLES + ROWS.format(table="app.ours"))
        between.runs(lambda: other.sql("INSERT INTO app.ours VALUES (1000, 10, 'elsewhere')"))
        changed = outcome_of(lake, text.format(table="app.ours", key=1 if "WHERE" in text else 5, n=25), "app.ours")
        assert isinstance(changed, int)
        assert len(rows(lake, "app.ours")) > 1


def test_rows_of_other_users_cost_no_attempt(between: Between, warehouse_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "_ATTEMPTS", 1)
    with Lakehouse.open(warehouse_uri) as lake, Lakehouse.open(warehouse_uri) as other:
        lake.sql(TABLES)
        lake.sql(ROWS.format(table="app.mine"), user="ann")
        between.runs(lambda: other.sql("INSERT INTO app.mine VALUES (1, 1, 'bob')", user="bob"))
        assert outcome_of(lake, "UPDATE app.mine SET t = 'all' WHERE true") == 4


def test_what_others_write_to_the_same_rows_costs_one(
    between: Between, warehouse_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "_ATTEMPTS", 1)
    with Lakehouse.open(warehouse_uri) as lake, Lakehouse.open(warehouse_uri) as other:
        lake.sql(TABLES + ROWS.format(table="app.ours"))
        between.runs(lambda: other.sql("UPDATE app.ours SET n = 11 WHERE id = 1"))
        with pytest.raises(Conflict, match="was written to 1 times in between"):
            lake.sql("UPDATE app.ours SET n = n + 1 WHERE id = 1")
