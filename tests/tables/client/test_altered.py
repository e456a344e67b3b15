"""A client from before an ALTER: what it writes is as if written before, or as if begun after it, or CONFLICT."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from lakewarden import Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.log.objects.gather import Gathering
from lakewarden.sql.session import SqlSession
from lakewarden.tables.client import TableClient
from lakewarden.tables.direct.commit import DirectCommit
from lakewarden.tables.direct.run import DirectRun
from lakewarden.tables.rows.intake import RowParts
from tests.fixtures.bucket import fresh_place
from tests.fixtures.examples import campaign
from tests.spark.source.writing import batch_writer, batches

_COLUMNS = "id BIGINT {key}, a BIGINT, b BIGINT, t TEXT, r TEXT NOT NULL DEFAULT 'r', d TEXT DEFAULT 'd'"
_KEYED = _COLUMNS.format(key="PRIMARY KEY")
_KEYLESS = _COLUMNS.format(key="NOT NULL")

KINDS = {
    "user": f"CREATE TABLE n.t ({_KEYED}) WITH (TYPE = 'USER')",
    "stream": f"CREATE TABLE n.t ({_KEYED}) WITH (TYPE = 'STREAM', TTL_SECONDS = 3600)",
    "keyed": f"CREATE SHARED TABLE n.t ({_KEYED})",
    "keyless": f"CREATE SHARED TABLE n.t ({_KEYLESS})",
    "partitioned": f"CREATE SHARED TABLE n.t ({_KEYLESS}, p TEXT DEFAULT 'p') PARTITION BY (p)",
    "dynamic": f"CREATE DYNAMIC TABLE n.t ({_COLUMNS.format(key='')}, PRIMARY KEY (id)) WITH ('bucket' = '1')",
    "images": f"CREATE DYNAMIC TABLE n.t ({_COLUMNS.format(key='')}, PRIMARY KEY (id))"
    " WITH ('bucket' = '1', 'log.changelog-mode' = 'all')",
}

ALTERS = {
    "add": "ALTER TABLE n.t ADD COLUMN x TEXT",
    "add with a default": "ALTER TABLE n.t ADD COLUMN x TEXT DEFAULT 'x'",
    "add NOT NULL": "ALTER TABLE n.t ADD COLUMN x INT NOT NULL DEFAULT 7",
    "drop": "ALTER TABLE n.t DROP COLUMN a",
    "drop a NOT NULL one": "ALTER TABLE n.t DROP COLUMN r",
    "rename": "ALTER TABLE n.t RENAME COLUMN a TO c",
    "rename the key": "ALTER TABLE n.t RENAME COLUMN id TO key",
    "swap": "ALTER TABLE n.t RENAME COLUMN a TO c; ALTER TABLE n.t RENAME COLUMN b TO a; ALTER TABLE n.t RENAME COLUMN c TO b",
    "again": "ALTER TABLE n.t DROP COLUMN a; ALTER TABLE n.t ADD COLUMN a BIGINT",
    "as another type": "ALTER TABLE n.t DROP COLUMN a; ALTER TABLE n.t ADD COLUMN a TEXT",
    "NOT NULL": "ALTER TABLE n.t ALTER COLUMN t SET NOT NULL",
    "NOT NULL, default": "ALTER TABLE n.t ALTER COLUMN t SET DEFAULT 'none'; ALTER TABLE n.t ALTER COLUMN t SET NOT NULL",
    "nullable": "ALTER TABLE n.t ALTER COLUMN r DROP NOT NULL",
    "default": "ALTER TABLE n.t ALTER COLUMN d SET DEFAULT 'other'",
    "no default": "ALTER TABLE n.t ALTER COLUMN d DROP DEFAULT",
    "wider": "ALTER TABLE n.t MODIFY COLUMN s BIGINT",
    "options": "ALTER TABLE n.t SET TBLPROPERTIES (ON_DUPLICATE = 'replace')",
    "another table": "DROP TABLE n.t; CREATE {kind} n.t (id BIGINT {key}, a TEXT, z TEXT)",
    "no table": "DROP TABLE n.t",
}

Way = Callable[["Client"], object]


@dataclass
class Client:
    """One who opened all that there is to open before the ALTER."""

    lake: Lakehouse
    kind: str
    place: Path
    user: str | None = field(init=False)
    table: TableClient = field(init=False)
    session: SqlSession = field(init=False)

    def __post_init__(self) -> None:
        self.user = "ann" if self.kind in ("user", "stream") else None
        self.table = self.lake.table("n.t")
        self.session = self.lake.session(user="ann", role="system")
        self.session.sql("USE n; CREATE TEMPORARY TABLE own (id BIGINT PRIMARY KEY, a BIGINT)")
        self.session.sql("INSERT INTO own VALUES (2, 22), (9, 90)")

    def sql(self, text: str) -> object:
        return [getattr(each, "rows", None) for each in self.session.sql(text)]

    def write(self, mode: Any = "upsert") -> object:
        return self.table.write([{"id": 9, "a": 90, "b": 91}], user=self.user, mode=mode).rows

    def parts(self) -> object:
        made = [pa.table({"id": [at], "a": [90], "b": [91]}) for at in (9, 10)]
        return self.table.write_parts(RowParts(lambda: iter(made)), user=self.user, mode="insert").rows

    def load(self) -> object:
        file = self.place / "rows.json"
        file.write_text("".join(json.dumps({"id": each, "a": 90, "b": 91}) + "\n" for each in (9, 10)))
        return self.lake.load("n.t", str(file), user=self.user).rows

    def spark(self) -> object:
        options = {"user": self.user} if self.user else {}
        writer = batch_writer(self.lake, "n.t", **options)
        writer.commit([writer.write(iter(batches([{"id": 9, "a": 90, "b": 91}])))])
        return None


WAYS: dict[str, Way] = {
    "write": lambda one: one.write(),
    "write, insert": lambda one: one.write("insert"),
    "write, Arrow": lambda one: one.table.write(pa.table({"id": [8, 9], "a": [80, 90], "t": ["t", "t"]}), user=one.user).rows,
    "delete": lambda one: one.table.delete([{"id": 2}], user=one.user).rows,
    "parts": lambda one: one.parts(),
    "load": lambda one: one.load(),
    "spark": lambda one: one.spark(),
    "INSERT": lambda one: one.sql("INSERT INTO n.t VALUES (9, 90, 91, NULL, 'nine', 'nine')"),
    "INSERT, named": lambda one: one.sql("INSERT INTO n.t (id, a, b) VALUES (9, 90, 91)"),
    "INSERT SELECT": lambda one: one.sql("INSERT INTO n.t (id, a) SELECT id + 10, b FROM n.t"),
    "INSERT many": lambda one: one.sql("INSERT INTO n.t (id, a) SELECT i, i FROM range(100, 250) r(i)"),
    "INSERT, temporary": lambda one: one.sql("INSERT INTO n.t (id, a) SELECT id + 10, a FROM own"),
    "ON CONFLICT": lambda one: one.sql("INSERT INTO n.t (id, a) VALUES (2, 90) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a"),
    "UPDATE": lambda one: one.sql("UPDATE n.t SET a = a + 1 WHERE b > 10"),
    "UPDATE one": lambda one: one.sql("UPDATE n.t SET a = b WHERE id = 2"),
    "DELETE": lambda one: one.sql("DELETE FROM n.t WHERE a = 20"),
    "MERGE": lambda one: one.sql(
        "MERGE INTO n.t USING own AS o ON n.t.id = o.id WHEN MATCHED THEN UPDATE SET a = o.a"
        " WHEN NOT MATCHED THEN INSERT (id, a) VALUES (o.id, o.a)"
    ),
    "k3 insert": lambda one: one.lake.k3.insert("n", "t", [{"id": 9, "a": 90}])["rowsWritten"],
    "k3 overwrite": lambda one: one.lake.k3.insert("n", "t", [{"id": 9, "a": 90}], mode="overwrite")["rowsWritten"],
    "k3 merge": lambda one: one.lake.k3.merge("n", "t", [{"id": 2, "a": 90}])["rowsWritten"],
    "k3 update": lambda one: one.lake.k3.update("n", "t", {"a": 5}, "b = 20")["rowsWritten"],
    "k3 delete": lambda one: one.lake.k3.delete_rows("n", "t", "a = 20")["rowsWritten"],
}

MOMENTS = ("before the call", "before the append", "before the commit")

REFUSALS = ("NOT_FOUND", "INVALID_ARGUMENT", "CONSTRAINT_VIOLATION", "UNSUPPORTED")
"""What the new columns may say of a write that was right for the old ones."""

Outcome = tuple[object, object, object]
"""Of the write, of the ALTER, and the rows."""


class Meeting:
    """Lets an ALTER run at a moment of the next write."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self._work: Callable[[], object] | None = None
        self._moment = ""
        appends, begins, drafts = Gathering.append, DirectRun.__init__, DirectCommit._draft

        def append(*args: Any, **more: Any) -> Any:
            self._meet("before the append")
            self._meet("before the commit")
            return appends(*args, **more)

        def begin(*args: Any, **more: Any) -> None:
            self._meet("before the append")
            begins(*args, **more)

        def draft(*args: Any) -> Any:
            self._meet("before the commit")
            return drafts(*args)

        patched.setattr(Gathering, "append", append)
        patched.setattr(DirectRun, "__init__", begin)
        patched.setattr(DirectCommit, "_draft", draft)

    def runs(self, moment: str, work: Callable[[], object]) -> None:
        self._moment, self._work = moment, work

    def has_run(self) -> bool:
        waits, self._work = self._work is not None, None
        return not waits

    def _meet(self, moment: str) -> None:
        if self._work is not None and moment == self._moment:
            work, self._work = self._work, None
            work()


@pytest.fixture(scope="module")
def meeting() -> Iterator[Meeting]:
    with pytest.MonkeyPatch.context() as patched:
        yield Meeting(patched)


@pytest.mark.slow
@pytest.mark.disk
@example("keyless", "swap", "write", MOMENTS[0], True)
@example("keyless", "swap", "INSERT", MOMENTS[1], False)
@example("keyless", "drop", "write", MOMENTS[1], True)
@example("keyless", "NOT NULL", "write", MOMENTS[1], True)
@example("partitioned", "rename", "UPDATE", MOMENTS[1], True)
@example("keyed", "NOT NULL", "write", MOMENTS[0], True)
@example("user", "NOT NULL", "INSERT", MOMENTS[1], True)
@example("user", "swap", "UPDATE", MOMENTS[1], True)
@example("images", "NOT NULL", "spark", MOMENTS[1], False)
@example("keyless", "NOT NULL, default", "spark", MOMENTS[1], True)
@example("stream", "rename the key", "delete", MOMENTS[0], False)
@campaign(30, gate=8)
@given(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(sorted(ALTERS)),
    st.sampled_from(sorted(WAYS)),
    st.sampled_from(MOMENTS),
    st.booleans(),
)
def test_a_write_and_an_alter_are_one_behind_the_other(
    meeting: Meeting, kind: str, alter: str, way: str, moment: str, flushed: bool
) -> None:
    check(meeting, kind, alter, way, moment, flushed)


def check(meeting: Meeting, kind: str, alter: str, way: str, moment: str, flushed: bool) -> None:
    met = outcome(meeting, kind, alter, way, moment, flushed)
    if met is None:
        return  # there was nothing to append
    allowed = [outcome(meeting, kind, alter, way, order, flushed) or met for order in ("write", "alter")]
    only = outcome(meeting, kind, alter, "nothing", "alter", flushed)
    assert only is not None
    always = ("CONFLICT", "NOT_FOUND") if "table" in alter else ("CONFLICT",)
    if met[1:] == only[1:] and (met[0] in always or all(each in REFUSALS for each in (met[0], allowed[1][0]))):
        return
    assert met in allowed, "\n".join(map(str, (met, *allowed)))


def outcome(meeting: Meeting, kind: str, alter: str, way: str, moment: str, flushed: bool) -> Outcome | None:
    with fresh_place("disk") as place, Lakehouse.open(f"{place}/w") as lake, Lakehouse.open(f"{place}/w") as other:
        found: list[object] = []
        prepare(lake, kind, flushed)

        def work() -> None:
            texts = ALTERS[alter].format(**_another(kind)).split("; ")
            found.extend(said(partial(other.sql, text)) for text in texts)

        if moment == "alter":
            work()
            client = Client(lake, kind, Path(str(place))) if _is_there(lake) else None
        else:
            client = Client(lake, kind, Path(str(place)))
        if moment == "before the call":
            client = client or Client(lake, kind, Path(str(place)))
            work()
        elif moment in MOMENTS:
            meeting.runs(moment, work)
        wrote: object = "NOT_FOUND" if client is None else None
        if client is not None and way != "nothing":
            wrote = said(lambda: WAYS[way](client))
        if moment in MOMENTS[1:] and not meeting.has_run():
            return None
        if moment == "write":
            work()
        with Lakehouse.open(f"{place}/w") as third:
            _check_notes(third)
            return wrote, tuple(map(str, found)), rows(third)


def prepare(lake: Lakehouse, kind: str, flushed: bool) -> None:
    lake.sql(f"CREATE NAMESPACE n; {KINDS[kind]}; ALTER TABLE n.t ADD COLUMN s INT DEFAULT 1", user="ann")
    lake.sql("INSERT INTO n.t (id, a, b, t) VALUES (1, 10, 11, 't'), (2, 20, 20, 't')", user="ann")
    if flushed and kind != "stream":
        lake.flush("n.t")


def said(work: Callable[[], object]) -> object:
    try:
        return work()
    except LakewardenError as error:
        return error.code
    except PySparkException as error:
        return str(error).partition(":")[0]


def rows(lake: Lakehouse) -> object:
    if not _is_there(lake):
        return None
    (found,) = lake.sql("SELECT * FROM n.t", user="ann")
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in found.table.to_pylist())  # type: ignore[union-attr]


def _is_there(lake: Lakehouse) -> bool:
    return any(str(each.name) == "n.t" for each in lake.tables())


def _check_notes(lake: Lakehouse) -> None:
    if _is_there(lake):
        assert lake.table("n.t").log.direct_upto() is None, "readers of changes wait for nothing"


def _another(kind: str) -> dict[str, str]:
    if kind in ("user", "stream"):
        return {"kind": "TABLE", "key": "PRIMARY KEY"}
    return {"kind": "SHARED TABLE", "key": "" if kind in ("keyless", "partitioned") else "PRIMARY KEY"}
