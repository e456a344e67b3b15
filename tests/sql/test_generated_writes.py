"""Generated statements that write do the same whether their rows fit into memory or are taken in parts (decisions 0074, 0086)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.sql.query_engine import in_process
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.session import SqlSession
from tests.fixtures.examples import campaign

pytestmark = [pytest.mark.slow, pytest.mark.disk]

_PARTS = Settings(sql=SqlSettings(result_bytes=1 << 11))
_COLUMNS = "(id BIGINT{}, day TEXT, v TEXT NOT NULL DEFAULT 'none'{})"
_KINDS = {
    "shared": f"SHARED TABLE {{}} {_COLUMNS.format(' PRIMARY KEY', '')}",
    "user": f"USER TABLE {{}} {_COLUMNS.format(' PRIMARY KEY', '')}",
    "last": f"SHARED TABLE {{}} {_COLUMNS.format(' PRIMARY KEY', '')} WITH (ON_DUPLICATE = 'replace')",
    "pairs": f"SHARED TABLE {{}} {_COLUMNS.format('', ', PRIMARY KEY (day, id)')} PARTITION BY (day)",
    "plain": f"SHARED TABLE {{}} {_COLUMNS.format('', '')} PARTITION BY (day)",
}
_numbers = count()


@dataclass(frozen=True)
class _Sides:
    parts: Lakehouse
    whole: Lakehouse


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Sides]:
    place: Path = tmp_path_factory.mktemp("sides")
    with (
        pytest.MonkeyPatch.context() as patch,
        Lakehouse.open(str(place / "parts"), settings=_PARTS) as parts,
        Lakehouse.open(str(place / "whole")) as whole,
    ):
        patch.setattr(in_process, "_BATCH_ROWS", 32)
        for lake in (parts, whole):
            lake.sql("CREATE NAMESPACE n")
        yield _Sides(parts, whole)


_IDS = st.sampled_from(["i", "i + 20", "i * 3", "i // 2", "150 - i", "i % 40", "NULLIF(i, 7)", "i::SMALLINT", "i * 1.0"])
_DAYS = st.sampled_from(["'d' || (i % 3)", "'d0'", "NULLIF('d' || (i % 4), 'd3')", "'ä/ =' || (i % 2)"])
_TEXTS = st.sampled_from(["'value ' || i", "repeat('x', (i % 90)::INT)", "NULLIF('v' || i, 'v11')", "''"])
_SIZES = st.sampled_from([0, 1, 40, 150, 300])
_SETS = ("v = s.v", "v = t.v || '+'", "day = s.day", "v = NULLIF(s.v, '')", "id = s.id + 1000", "v = DEFAULT")
_MATCHED = st.sampled_from(
    [
        "",
        "WHEN MATCHED AND s.id % 4 = 0 THEN DELETE",
        "WHEN MATCHED AND t.v LIKE 'l%' THEN DELETE",
        *[f"WHEN MATCHED THEN UPDATE SET {each}" for each in _SETS],
        *[f"WHEN MATCHED AND s.id % 3 = 1 THEN UPDATE SET {each} WHEN MATCHED THEN DELETE" for each in _SETS[:2]],
    ]
)
_NOT_MATCHED = st.sampled_from(
    [
        "",
        "WHEN NOT MATCHED THEN INSERT *",
        "WHEN NOT MATCHED AND s.day = 'd1' THEN INSERT (id, day) VALUES (s.id, s.day)",
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id + 1, s.v)",
    ]
)
_CONFLICTS = st.sampled_from(
    [
        "",
        "",
        "ON CONFLICT DO NOTHING",
        "ON CONFLICT (id) DO NOTHING",
        "ON CONFLICT DO UPDATE SET v = excluded.v",
        "ON CONFLICT DO UPDATE SET v = t.v || excluded.v WHERE t.id % 2 = 0",
        "ON CONFLICT DO UPDATE SET v = NULLIF(excluded.v, ''), day = excluded.day",
        "ON CONFLICT DO UPDATE SET v = (SELECT count(*)::TEXT FROM {table})",
    ]
)


@st.composite
def sources(draw: st.DrawFn) -> str:
    shown = f"{draw(_IDS)} AS id, {draw(_DAYS)} AS day, {draw(_TEXTS)} AS v"
    query = f"SELECT {shown} FROM range({draw(_SIZES)}) r(i)"
    if draw(st.integers(0, 5)) == 0:
        query = f"{query} UNION ALL SELECT 2, 'd2', 'twice'"
    return query


@st.composite
def statements(draw: st.DrawFn, kind: str) -> str:
    source = draw(sources())
    shape = draw(st.sampled_from(["insert", "insert", "merge", "merge", "overwrite", "temporary", "update", "flush"]))
    if shape == "insert" or (kind == "plain" and shape in ("merge", "temporary")):
        return f"INSERT INTO {{table}} AS t {source} {draw(_CONFLICTS) if kind != 'plain' else ''}"
    if shape == "merge":
        return _merge(draw, kind, f"({source})")
    if shape == "overwrite":
        return f"INSERT OVERWRITE {{table}} {source}"
    if shape == "temporary":
        made = "CREATE TEMPORARY TABLE {temporary} (id BIGINT, day TEXT, v TEXT); INSERT INTO {temporary}"
        return f"{made} {source}; {_merge(draw, kind, '{temporary}')}"
    if shape == "update":
        return draw(
            st.sampled_from(["UPDATE {table} SET v = v || 'u' WHERE id < 9", "DELETE FROM {table} WHERE id BETWEEN 10 AND 30"])
        )
    return ""


def _merge(draw: st.DrawFn, kind: str, source: str) -> str:
    on = draw(st.sampled_from(["t.id = s.id", "t.id = s.id + 1"]))
    day = " AND t.day = s.day" if kind == "pairs" else ""
    return f"MERGE INTO {{table}} t USING {source} s ON {on}{day} {draw(_MATCHED)} {draw(_NOT_MATCHED)}"


@st.composite
def series(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A kind of table, and what is done to it."""
    kind = draw(st.sampled_from(list(_KINDS)))
    return kind, draw(st.lists(statements(kind), min_size=1, max_size=5))


def _outcome(session: SqlSession, text: str) -> AffectedRows | str:
    try:
        *_, done = session.sql(text)
    except LakewardenError as error:
        return error.code
    assert isinstance(done, AffectedRows)
    return replace(done, warnings=())


def _rows(lake: Lakehouse, name: str, kind: str) -> list[tuple[object, ...]]:
    found = lake.table(name).read(user="root" if kind == "user" else None).select(["id", "day", "v"])
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=str)


@campaign(1000 if settings().max_examples >= 1000 else max(settings().max_examples // 2, 5), gate=15)
@given(drawn=series())
def test_generated_statements_do_the_same_in_parts(sides: _Sides, drawn: tuple[str, list[str]]) -> None:
    kind, texts = drawn
    number = next(_numbers)
    table = f"n.t{number}"
    in_parts, whole = (lake.session(user="root", role="system") for lake in (sides.parts, sides.whole))
    for session in (in_parts, whole):
        session.sql(f"CREATE {_KINDS[kind].format(table)}")
        session.sql(f"INSERT INTO {table} SELECT i * 2, 'd' || (i % 3), 'live ' || i FROM range(50) r(i)")
    for place, text in enumerate(texts):
        written = text.format(table=table, temporary=f"s{number}_{place}")
        if not written:
            sides.parts.flush(table)
            continue
        before = _rows(sides.parts, table, kind)
        found, expected = _outcome(in_parts, written), _outcome(whole, written)
        if found == Unsupported.code != expected:
            event("needs all rows at once")
            assert _rows(sides.parts, table, kind) == before
            break
        event(found if isinstance(found, str) else "written")
        assert found == expected, written
        assert _rows(sides.parts, table, kind) == _rows(sides.whole, table, kind), written
    for session in (in_parts, whole):
        session.sql(f"DROP TABLE {table}")
