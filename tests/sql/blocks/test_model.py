"""Two sessions, with blocks and without, against a model in dictionaries: what each sees, what stays, which COMMIT is refused."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden import Lakehouse
from lakewarden.errors import Conflict, ConstraintViolation
from lakewarden.sql.results import AffectedRows, ResultRows
from lakewarden.sql.session import SqlSession
from tests.fixtures.examples import examples
from tests.fixtures.lakes import lake_fixture

Key = int
Cell = tuple[int, str]
"""When a row was written, and its text."""

_KINDS = {
    "user": "CREATE USER TABLE {} (id BIGINT PRIMARY KEY, v TEXT)",
    "shared": "CREATE SHARED TABLE {} (id BIGINT PRIMARY KEY, v TEXT)",
    "imaged": "CREATE DYNAMIC TABLE {} (id BIGINT PRIMARY KEY, v TEXT) WITH ('log.changelog-mode' = 'all')",
}
_EXAMPLES = int(os.environ.get("LAKEWARDEN_BLOCKS", "5"))
_KEYS = st.integers(0, 3)
_ACTS = st.one_of(
    st.tuples(st.sampled_from(["insert", "update", "delete", "upsert", "merge", "look"]), _KEYS),
    st.tuples(st.sampled_from(["write", "remove", "every"]), _KEYS),
    st.tuples(st.sampled_from(["begin", "begin", "commit", "commit", "rollback", "savepoint", "back", "flush"]), st.just(0)),
)
_STEPS = st.lists(st.tuples(st.integers(0, 1), _ACTS), min_size=8, max_size=30)


@dataclass
class _Side:
    """What the model knows of one session. `seen` is of each key that its block wrote, as it was then."""

    session: SqlSession
    open: bool = False
    own: dict[Key, Cell | None] = field(default_factory=dict)
    seen: dict[Key, Cell | None] = field(default_factory=dict)
    points: list[tuple[dict[Key, Cell | None], dict[Key, Cell | None]]] = field(default_factory=list)

    def end(self) -> None:
        self.open, self.own, self.seen, self.points = False, {}, {}, []


class _Model:
    def __init__(self, lake: Lakehouse, table: str, *, replaces: bool) -> None:
        self.lake = lake
        self.table = table
        self.replaces = replaces
        """Whether an INSERT of a live key replaces its row."""
        self.rows: dict[Key, Cell] = {}
        self.sides = [_Side(lake.session(user="root", role="system")) for _ in range(2)]
        self._numbers = count(1)

    def visible(self, side: _Side) -> dict[Key, Cell]:
        merged: dict[Key, Cell | None] = {**self.rows, **side.own}
        return {key: cell for key, cell in merged.items() if cell is not None}

    def step(self, number: int, act: str, key: Key) -> None:
        side = self.sides[number]
        getattr(self, f"_{act}")(side, key)
        if act != "flush":
            found = side.session.sql(f"SELECT id, v FROM {self.table} ORDER BY id")[-1]
            assert isinstance(found, ResultRows)
            assert [(row["id"], row["v"]) for row in found.to_pylist()] == [
                (known, cell[1]) for known, cell in sorted(self.visible(side).items())
            ]

    def _put(self, side: _Side, key: Key, cell: Cell | None) -> None:
        if not side.open:
            if cell is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = cell
            return
        if key not in side.own:
            side.seen[key] = self.rows.get(key)
        side.own[key] = cell

    def _cell(self, text: str) -> Cell:
        number = next(self._numbers)
        return number, f"{text} {number}"

    def _insert(self, side: _Side, key: Key) -> None:
        cell = self._cell("inserted")
        text = f"INSERT INTO {self.table} VALUES ({key}, '{cell[1]}')"
        if self.replaces or key not in self.visible(side):
            side.session.sql(text)
            self._put(side, key, cell)
            return
        with pytest.raises(ConstraintViolation):
            side.session.sql(text)
        if side.open:
            side.session.sql("ROLLBACK")
            side.end()

    def _update(self, side: _Side, key: Key) -> None:
        cell, there = self._cell("updated"), key in self.visible(side)
        found = side.session.sql(f"UPDATE {self.table} SET v = '{cell[1]}' WHERE id = {key}")[-1]
        assert found == AffectedRows(int(there))
        if there:
            self._put(side, key, cell)

    def _every(self, side: _Side, key: Key) -> None:
        """An UPDATE that reads all rows."""
        cell = self._cell("each")
        there = [each for each in self.visible(side) if each >= key]
        assert side.session.sql(f"UPDATE {self.table} SET v = '{cell[1]}' WHERE id * 2 >= {2 * key}")[-1] == AffectedRows(
            len(there)
        )
        for each in there:
            self._put(side, each, cell)

    def _delete(self, side: _Side, key: Key) -> None:
        there = key in self.visible(side)
        assert side.session.sql(f"DELETE FROM {self.table} WHERE id = {key}")[-1] == AffectedRows(int(there))
        if there:
            self._put(side, key, None)

    def _upsert(self, side: _Side, key: Key) -> None:
        cell = self._cell("upserted")
        side.session.sql(f"INSERT INTO {self.table} VALUES ({key}, '{cell[1]}') ON CONFLICT (id) DO UPDATE SET v = excluded.v")
        self._put(side, key, cell)

    def _merge(self, side: _Side, key: Key) -> None:
        cell = self._cell("merged")
        side.session.sql(
            f"MERGE INTO {self.table} t USING (SELECT {key} AS id, '{cell[1]}' AS v) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
        )
        self._put(side, key, cell)

    def _write(self, side: _Side, key: Key) -> None:
        """Through the session's table, without a look."""
        cell = self._cell("written")
        side.session.table(self.table).write([{"id": key, "v": cell[1]}])
        self._put(side, key, cell)

    def _remove(self, side: _Side, key: Key) -> None:
        side.session.table(self.table).delete([{"id": key}])
        self._put(side, key, None)

    def _look(self, side: _Side, key: Key) -> None:
        found = side.session.sql(f"SELECT count(*) AS n FROM {self.table} WHERE id >= {key}")[-1]
        assert isinstance(found, ResultRows)
        assert found.to_pylist() == [{"n": sum(each >= key for each in self.visible(side))}]

    def _begin(self, side: _Side, _: Key) -> None:
        if not side.open:
            side.session.sql("BEGIN")
            side.open = True

    def _commit(self, side: _Side, _: Key) -> None:
        if not side.open:
            return
        own, lost = side.own, any(self.rows.get(key) != cell for key, cell in side.seen.items())
        side.end()
        if lost:
            with pytest.raises(Conflict):
                side.session.sql("COMMIT")
            return
        side.session.sql("COMMIT")
        for key, cell in own.items():
            self._put(side, key, cell)

    def _rollback(self, side: _Side, _: Key) -> None:
        if side.open:
            side.session.sql("ROLLBACK")
            side.end()

    def _savepoint(self, side: _Side, _: Key) -> None:
        if side.open:
            side.session.sql("SAVEPOINT a")
            side.points.append((dict(side.own), dict(side.seen)))

    def _back(self, side: _Side, _: Key) -> None:
        if side.points:
            side.session.sql("ROLLBACK TO SAVEPOINT a")
            side.own, side.seen = dict(side.points[-1][0]), dict(side.points[-1][1])

    def _flush(self, _side: _Side, _: Key) -> None:
        self.lake.flush()


lake = lake_fixture(sql="CREATE NAMESPACE n", scope="module")


_tables = count()


@pytest.mark.slow
@pytest.mark.parametrize("kind", _KINDS)
@settings(max_examples=examples(_EXAMPLES), deadline=None)
@given(steps=_STEPS)
def test_blocks_are_as_the_model_has_them(lake: Lakehouse, kind: str, steps: list[tuple[int, tuple[str, int]]]) -> None:
    table = f"n.t{next(_tables)}"
    lake.sql(_KINDS[kind].format(table))
    model = _Model(lake, table, replaces=kind == "imaged")
    for number, (act, key) in steps:
        model.step(number, act, key)
