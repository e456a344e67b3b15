"""Random changes of columns, of rows, of files and of versions equal a dict of rows: by SQL, and by a reader who goes by names.

`test_evolution_model` has the types, the keys and the clients of older schemas; here it is which files lack which columns.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.evolution import AddColumn, Alteration, DropColumn, RenameColumn
from lakewarden.sql.results import ResultRows
from tests.fixtures.examples import examples

_NAMES = ("a", "b", "c")
_VALUES: dict[str, tuple[Any, ...]] = {"INT": (0, 1, 2), "TEXT": ("u", "v")}
_ids = st.integers(0, 5)
_places = st.sampled_from(["x", "y"])

_Row = dict[int, Any]
"""The values of one row by the columns' identities; `_PLACE` is its partition."""

_PLACE = -1


@dataclass(frozen=True)
class _Column:
    identity: int
    name: str
    type: str
    initial: Any


class Columns(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        two = CompactionSettings(min_eligible_segments=2)
        self.lake = Lakehouse.open(self.place.name, settings=Settings(compaction=two))
        self.columns: tuple[_Column, ...] = ()
        self.made = 0
        self.rows: dict[int, _Row] = {}
        self.versions: dict[int, dict[int, _Row]] = {}
        """What the versions hold that were made when no row was pending."""
        self.newest = -1
        self.in_step = False
        """Whether the Delta table has the newest columns."""

    @initialize(partitioned=st.booleans())
    def create(self, partitioned: bool) -> None:
        self.lake.create_namespace("n")
        columns = [Column("id", "BIGINT"), Column("p", "TEXT")]
        self.lake.create_table(
            "n.t", type="SHARED", columns=columns, primary_key=["id"], partition_by=["p"] if partitioned else []
        )
        self._note()

    def teardown(self) -> None:
        self.lake.close()
        self.place.cleanup()

    def _delta(self) -> DeltaTable | None:
        uri = f"{self.lake.warehouse.uri}/data/n/t"
        return DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None

    def _note(self, *, brings_columns: bool = True) -> None:
        """Call this after whatever may have committed."""
        delta = self._delta()
        version = -1 if delta is None else delta.version()
        if version > self.newest:
            self.in_step, self.newest = self.in_step or brings_columns, version
            if not self.lake.pending():
                self.versions[version] = dict(self.rows)

    def _altered(self, change: Alteration) -> None:
        self.lake.alter_table("n.t", change)
        self.in_step = False

    @rule(data=st.data(), id_=_ids, place=_places)
    def upsert(self, data: st.DataObject, id_: int, place: str) -> None:
        values = {each: data.draw(st.sampled_from(_choices(each)), each.name) for each in self.columns}
        self.lake.table("n.t").write([{"id": id_, "p": place, **{each.name: value for each, value in values.items()}}])
        self.rows[id_] = {_PLACE: place, **{each.identity: value for each, value in values.items()}}

    @rule(id_=_ids)
    def delete(self, id_: int) -> None:
        self.lake.table("n.t").delete([{"id": id_}])
        self.rows.pop(id_, None)

    @precondition(lambda self: self.columns)
    @rule(data=st.data(), id_=_ids)
    def update(self, data: st.DataObject, id_: int) -> None:
        column = data.draw(st.sampled_from(self.columns))
        value = data.draw(st.sampled_from(_VALUES[column.type]))
        self.lake.sql(f"UPDATE n.t SET {column.name} = {value!r} WHERE id >= {id_}", role="dba")
        self.rows = {key: row | {column.identity: value} if key >= id_ else row for key, row in self.rows.items()}
        self._note()

    @rule()
    def flush(self) -> None:
        assert all(report.fault is None for report in self.lake.flush("n.t"))
        self._note()

    @rule()
    def compact(self) -> None:
        assert all(report.fault is None for report in (*self.lake.compact("n.t"), *self.lake.optimize("n.t", zorder=["id"])))
        self._note(brings_columns=False)

    @precondition(lambda self: len(self.columns) < len(_NAMES))
    @rule(data=st.data(), type_=st.sampled_from(sorted(_VALUES)), valued=st.booleans())
    def add(self, data: st.DataObject, type_: str, valued: bool) -> None:
        name = data.draw(st.sampled_from(self._free()))
        initial = _VALUES[type_][0] if valued else None
        default = None if initial is None else repr(initial)
        self._altered(AddColumn(Column(name, type_, nullable=not valued, default=default)))
        self.columns = (*self.columns, _Column(self.made, name, type_, initial))
        self.rows = {id_: row | {self.made: initial} for id_, row in self.rows.items()}
        self.made += 1

    @precondition(lambda self: self.columns)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.columns))
        self._altered(DropColumn(gone.name))
        self.columns = tuple(each for each in self.columns if each != gone)

    @precondition(lambda self: self.columns and self._free())
    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        column, name = data.draw(st.sampled_from(self.columns)), data.draw(st.sampled_from(self._free()))
        self._altered(RenameColumn(column.name, name))
        renamed = _Column(column.identity, name, column.type, column.initial)
        self.columns = tuple(renamed if each == column else each for each in self.columns)

    @precondition(lambda self: self.versions and not self.lake.pending())
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        (report,) = self.lake.restore("n.t", version=version, dry_run=False)
        assert report.fault is None
        then = self.versions[version]
        whole = {each.identity: each.initial for each in self.columns}
        self.rows = {id_: whole | row for id_, row in then.items()}
        self._note()

    @precondition(lambda self: self.columns)
    @rule(data=st.data())
    def query(self, data: st.DataObject) -> None:
        column = data.draw(st.sampled_from(self.columns))
        value = data.draw(st.none() | st.sampled_from(_VALUES[column.type]))
        condition = f"{column.name} IS NULL" if value is None else f"{column.name} = {value!r}"
        (result,) = self.lake.sql(f"SELECT id FROM n.t WHERE {condition}", role="dba")
        assert isinstance(result, ResultRows)
        expected = {id_ for id_, row in self.rows.items() if row[column.identity] == value}
        assert set(result.table.column("id").to_pylist()) == expected

    def _free(self) -> list[str]:
        return [name for name in _NAMES if name not in {each.name for each in self.columns}]

    def _expected(self) -> list[dict[str, Any]]:
        return [
            {"id": id_, "p": row[_PLACE], **{each.name: row[each.identity] for each in self.columns}}
            for id_, row in sorted(self.rows.items())
        ]

    @invariant()
    def every_reader_sees_the_model(self) -> None:
        if self.newest == -1 and not self.rows:
            return
        assert _sorted(self.lake.table("n.t").read().to_pylist()) == self._expected()
        delta = self._delta()
        if delta is not None and self.in_step and not self.lake.pending():
            assert _sorted(delta.to_pyarrow_table().drop_columns(["_seq"]).to_pylist()) == self._expected()


def _choices(column: _Column) -> tuple[Any, ...]:
    return _VALUES[column.type] if column.initial is not None else (None, *_VALUES[column.type])


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["id"]))


TestColumns = pytest.mark.slow(pytest.mark.campaign(Columns.TestCase))  # tests/model/test_lakehouse_model.py is the quick one
TestColumns.settings = settings(max_examples=examples(40, gate=12), stateful_step_count=30)
