"""Random alters, writes (also by clients that know an older schema), deletes, flushes and compactions equal a dict.

The model keeps each row's values by the column's own identity, which a rename does not change and a drop ends.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.evolution import AddColumn, DropColumn, ModifyColumn, RenameColumn, SetDefault, SetNullable
from lakewarden.errors import SchemaChanged
from lakewarden.tables.client import TableClient
from tests.fixtures.examples import examples

_NAMES = ("a", "b", "c", "d")
_WIDER = {"SMALLINT": "INT", "INT": "BIGINT", "FLOAT": "DOUBLE"}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "TEXT": st.text(max_size=3).filter(lambda text: text.isprintable()),
}


@dataclass(frozen=True)
class _Column:
    identity: int
    name: str
    type: str


@dataclass(frozen=True)
class _Known:
    """A client, and the columns that it knows."""

    client: TableClient
    key: str
    columns: tuple[_Column, ...]


class Evolution(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        two = CompactionSettings(min_eligible_segments=2)
        self.lake = Lakehouse.open(self.place.name, settings=Settings(compaction=two))
        self.rows: dict[int, dict[int, Any]] = {}
        self.columns: tuple[_Column, ...] = ()
        self.made = 0

    @initialize()
    def create(self) -> None:
        self.lake.create_namespace("n")
        self.columns = (_Column(0, "a", "SMALLINT"), _Column(1, "b", "TEXT"))
        columns = [Column("id", "BIGINT"), *(Column(each.name, each.type) for each in self.columns)]
        client = self.lake.create_table("n.t", columns=columns, primary_key=["id"])
        self.key, self.made = "id", 2
        self.old = _Known(client, "id", self.columns)

    def teardown(self) -> None:
        self.lake.close()
        self.place.cleanup()

    def _now(self) -> _Known:
        return _Known(self.lake.table("n.t"), self.key, self.columns)

    def _free(self) -> list[str]:
        return [name for name in _NAMES if name not in {each.name for each in self.columns}]

    @rule(data=st.data(), stale=st.booleans(), id_=st.integers(0, 5))
    def write(self, data: st.DataObject, stale: bool, id_: int) -> None:
        by = self.old if stale else self._now()
        values = {each: data.draw(st.none() | _VALUES[each.type], each.name) for each in by.columns}
        row = {by.key: id_, **{each.name: value for each, value in values.items()}}
        if {each.identity for each in by.columns} - {each.identity for each in self.columns}:
            with pytest.raises(SchemaChanged, match="was dropped since the table was opened"):
                by.client.write([row])
            return
        by.client.write([row])
        self.rows[id_] = {each.identity: value for each, value in values.items()}

    @rule(stale=st.booleans(), id_=st.integers(0, 5))
    def delete(self, stale: bool, id_: int) -> None:
        by = self.old if stale else self._now()
        by.client.delete([{by.key: id_}])
        self.rows.pop(id_, None)

    @rule()
    def remember_this_client(self) -> None:
        self.old = self._now()

    @precondition(lambda self: self._free())
    @rule(data=st.data(), type_=st.sampled_from(sorted(_VALUES)))
    def add(self, data: st.DataObject, type_: str) -> None:
        name = data.draw(st.sampled_from(self._free()))
        self.lake.alter_table("n.t", AddColumn(Column(name, type_)))
        self.columns = (*self.columns, _Column(self.made, name, type_))
        self.made += 1

    @precondition(lambda self: self.columns)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.columns))
        self.lake.alter_table("n.t", DropColumn(gone.name))
        self.columns = tuple(each for each in self.columns if each != gone)

    @precondition(lambda self: self.columns)
    @rule(data=st.data())
    def add_anew(self, data: st.DataObject) -> None:
        """The same name and type again, which is another column all the same."""
        gone = data.draw(st.sampled_from(self.columns))
        self.lake.alter_table("n.t", DropColumn(gone.name))
        self.lake.alter_table("n.t", AddColumn(Column(gone.name, gone.type)))
        self.columns = (*(each for each in self.columns if each != gone), replace(gone, identity=self.made))
        self.made += 1

    @precondition(lambda self: self.columns and self._free())
    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        column = data.draw(st.sampled_from(self.columns))
        name = data.draw(st.sampled_from(self._free()))
        self.lake.alter_table("n.t", RenameColumn(column.name, name))
        self.columns = tuple(replace(each, name=name) if each == column else each for each in self.columns)

    @rule()
    def rename_the_key(self) -> None:
        to = {"id": "key", "key": "id"}[self.key]
        self.lake.alter_table("n.t", RenameColumn(self.key, to))
        self.key = to

    @precondition(lambda self: any(each.type in _WIDER for each in self.columns))
    @rule(data=st.data())
    def widen(self, data: st.DataObject) -> None:
        column = data.draw(st.sampled_from([each for each in self.columns if each.type in _WIDER]))
        wider = _WIDER[column.type]
        self.lake.alter_table("n.t", ModifyColumn(column.name, wider))
        self.columns = tuple(replace(each, type=wider) if each == column else each for each in self.columns)

    @precondition(lambda self: self.columns)
    @rule(data=st.data())
    def tighten_and_loosen(self, data: st.DataObject) -> None:
        """NOT NULL where nobody has NULL, and back: for the values nothing changes."""
        column = data.draw(st.sampled_from(self.columns))
        if all(row.get(column.identity) is not None for row in self.rows.values()):
            self.lake.alter_table("n.t", SetNullable(column.name, False))
            self.lake.flush("n.t")
            self._note_flush()
            self.lake.alter_table("n.t", SetNullable(column.name, True))
        self.lake.alter_table("n.t", SetDefault(column.name, None))

    @rule()
    def flush(self) -> None:
        assert all(report.fault is None for report in self.lake.flush("n.t"))
        self._note_flush()

    @rule()
    def compact(self) -> None:
        assert all(report.fault is None for report in self.lake.compact("n.t"))
        assert all(report.fault is None for report in self.lake.optimize("n.t"))

    def _note_flush(self) -> None:
        assert self.lake.pending() == []

    @invariant()
    def every_row_is_read_as_the_model_has_it(self) -> None:
        if not self.made:
            return
        expected = [
            {self.key: id_, **{each.name: row.get(each.identity) for each in self.columns}}
            for id_, row in sorted(self.rows.items())
        ]
        found = self.lake.table("n.t").read()
        assert found.column_names == [self.key, *(each.name for each in self.columns)]
        assert sorted(found.to_pylist(), key=lambda row: int(row[self.key])) == expected
        if not self.lake.pending():
            eventual = self.lake.table("n.t").read(freshness="eventual")
            assert sorted(eventual.to_pylist(), key=lambda row: int(row[self.key])) == expected


TestEvolution = pytest.mark.slow(pytest.mark.campaign(Evolution.TestCase))  # tests/model/test_lakehouse_model.py is the quick one
TestEvolution.settings = settings(max_examples=examples(40, gate=12), stateful_step_count=30)
