"""A look-up is answered without the engine, and says the same as the engine: columns, types, rows and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden import Lakehouse
from lakewarden.catalog.column_types import ColumnType
from lakewarden.errors import FailedPrecondition, LakewardenError, PermissionDenied
from lakewarden.sql.dialect import Scalar
from lakewarden.sql.parse import parse
from lakewarden.sql.queries.look_up_texts import _kept, _kept_texts
from lakewarden.sql.queries.look_ups import exact_value
from lakewarden.sql.query_engine.workers.engine import Workers
from lakewarden.sql.query_engine.workers.messages import EngineAct
from lakewarden.sql.results import QueryStrategy, ResultRows
from lakewarden.sql.session import SqlSession
from lakewarden.sql.statements.insert import Insert
from lakewarden.sql.statements.query import Query
from lakewarden.tables.freshness import Freshness
from tests.fixtures.examples import campaign, examples

_KEYS = {
    "SMALLINT": ("-32768", "0", "7", "32767"),
    "INT": ("-2147483648", "0", "7", "2147483647"),
    "BIGINT": ("-9223372036854775808", "0", "7", "9007199254740993", "9223372036854775807"),
    "TEXT": ("''", "'7'", "'a'", "'A'", "'a '", "'it''s'", "'é'", "'e\u0301'", "'%'", "'2024-02-29'", "'naïve 🙂'"),
    "UUID": ("'0191e3c5-7f4a-7cc2-98a1-000000000001'", "'ffffffff-ffff-4fff-bfff-ffffffffffff'"),
    "DATE": ("DATE '0001-01-01'", "DATE '2024-02-29'", "DATE '9999-12-31'"),
    "TIMESTAMP": ("TIMESTAMP '2024-02-29 23:59:59.999999'", "TIMESTAMP '1970-01-01 00:00:00'"),
    "TIME": ("'00:00:00'", "'23:59:59.999999'"),
    "DECIMAL(10,2)": ("0", "1.10", "-99999999.99"),
    "BOOLEAN": ("true", "false"),
    "BYTES": ("'a'::BLOB", "'\\x00'::BLOB"),
}
"""Types of keys, and values of each."""

_LITERALS = (
    *("0", "7", "-7", "007", "7.0", "7.4", "7e0", "1.1", "1.10", "1.100", "-0", "-0.0", "32767", "32768", "-32768", "-32769"),
    *("2147483647", "2147483648", "-2147483648", "9007199254740993", "9007199254740993.0", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "99999999999999999999", "1e400", "NULL", "true", "false"),
    *("''", "'7'", "' 7 '", "'7.0'", "'7.5'", "'a'", "'A'", "'a '", "'it''s'", "'é'", "'e\u0301'", "'%'", "'naïve 🙂'", "'true'"),
    *("'0191e3c5-7f4a-7cc2-98a1-000000000001'", "'0191E3C5-7F4A-7CC2-98A1-000000000001'", "'0191e3c57f4a7cc298a1000000000001'"),
    *("'{0191e3c5-7f4a-7cc2-98a1-000000000001}'", "'ffffffff-ffff-4fff-bfff-ffffffffffff'"),
    *("'2024-02-29'", "'2024-2-29'", "'2024-02-30'", "'0001-01-01'", "'9999-12-31'", "'20240229'", "' 2024-02-29'", "'infinity'"),
    *("'2024-02-29 00:00:00'", "DATE '2024-02-29'", "TIMESTAMP '2024-02-29 23:59:59.999999'", "'epoch'", "'2024-W09-4'"),
    *("'2024-02-29 23:59:59.999999'", "'2024-02-29T23:59:59.999999Z'", "'2024-03-01 01:59:59.999999+02'", "'1970-01-01'"),
    *(
        "'00:00:00'",
        "'23:59:59.999999'",
        "'24:00:00'",
        "-9223372036854775807",
        "1",
        "x'61'",
        "'\\x00'",
        "7::SMALLINT",
        "+7",
        "(7)",
    ),
)
"""Whatever may stand behind `=`, whether it is a value of the key or not."""

_SHOWN = (
    *(
        "*",
        "id",
        "ID",
        '"id"',
        "n",
        "v",
        "id, n",
        "n, id, n, ID",
        "*, id",
        "*, _seq",
        "_seq",
        "_SEQ AS at",
        "id AS x",
        'id AS "x Y"',
    ),
    *(
        "n AS id",
        "id AS n",
        "id AS id",
        "N AS n",
        "7",
        "7, id",
        "'a', n",
        "'it''s' AS q, id",
        "7 AS n",
        "-7",
        "1.5",
        "2147483648",
    ),
    *("007", "''", "'a' AS id", "t.id", "t.*", "app.t.id", "none", "id, none", "rowid", "current_user", "t", "T.n AS t"),
    *(
        "d, f, u, j, b, ti, de, raw, w, ts, da",
        "id 'x'",
        "NULL",
        "true",
        "id + 1",
        "upper(v)",
        "DISTINCT id",
        "count(*)",
        "7::TEXT",
    ),
    *("9223372036854775807", "9223372036854775808", "id AS _seq", "COLUMNS(*)", "id AS a, a", "n AS w, w"),
)

_COLUMNS = (
    "n INT, v TEXT, d DOUBLE, f FLOAT, u UUID, j JSON, b BOOLEAN, ti TIME, de DECIMAL(20,4), raw BYTES, w SMALLINT, ts TIMESTAMP,"
    " da DATE"
)
_ROW = (
    "{n}, 'v{n}', {d}, -0e0, '0191e3c5-7f4a-7cc2-98a1-00000000000{n}', '{{\"a\": [{n}, null]}}', {n} % 2 = 0, '00:00:0{n}',"
    " {n}.0001, '\\xFF'::BLOB, {n}, TIMESTAMP '2024-02-29 23:59:59.99999{n}', DATE '2024-02-2{n}'"
)
_SPECIAL = ("1.5", "'NaN'", "'-Infinity'", "-0e0")
_PAIRS = ((1, "a"), (1, "A"), (2, "a"))


def _table(kind: str) -> str:
    return "k_" + kind.partition("(")[0].lower()


def _filled(lake: Lakehouse) -> None:
    """Of each kind of key a table, whose rows are in Delta, in the log, in both, and removed."""
    for kind, values in _KEYS.items():
        name = f"app.{_table(kind)}"
        lake.sql(f"CREATE USER TABLE {name} (id {kind} PRIMARY KEY, {_COLUMNS})")
        rows = [f"({value}, {_ROW.format(n=at % 10, d=_SPECIAL[at % 4])})" for at, value in enumerate(values)]
        lake.sql(f"INSERT INTO {name} VALUES {', '.join(rows[:2])}", user="ann")
        lake.flush(name)
        if rows[2:]:
            lake.sql(f"INSERT INTO {name} VALUES {', '.join(rows[2:])}", user="ann")
        if len(values) > 2:
            lake.sql(f"UPDATE {name} SET v = 'hot' WHERE id = {values[0]}; DELETE FROM {name} WHERE id = {values[1]}", user="ann")
    lake.sql("CREATE SHARED TABLE app.pairs (a BIGINT, b TEXT, c TEXT, PRIMARY KEY (b, a)) PARTITION BY (a)")
    lake.sql("INSERT INTO app.pairs VALUES " + ", ".join(f"({one}, '{other}', '{one}{other}')" for one, other in _PAIRS))
    lake.flush("app.pairs")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.create_namespace("app")
        _filled(opened)
        yield opened


@pytest.fixture(scope="module")
def ann(lake: Lakehouse) -> SqlSession:
    return lake.session(user="ann", role="service")


def _answer(session: SqlSession, text: str, freshness: Freshness = "strong", params: list[Scalar] | None = None) -> object:
    """All that a door can show of an answer; of an error its class and message."""
    try:
        (found,) = session.sql(text, freshness=freshness, params=params)
    except LakewardenError as error:
        return type(error), re.sub(r"(['\"]).*?\1", "…", error.message)  # which value fails first is by chance
    assert isinstance(found, ResultRows)
    rest = (found.one_users, found.strategy, found.served_by, found.strategy_reason)
    return found.columns, found.types, found.table.schema, str(found.values()), rest


@contextmanager
def _messages() -> Iterator[list[str]]:
    """The texts that go to workers."""
    sent: list[str] = []
    call = Workers._call

    def counted(self: Workers, act: EngineAct, *rest: Any) -> Any:
        sent.append(act)
        return call(self, act, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "_call", counted)
        yield sent


@pytest.mark.slow
@campaign(40, gate=15)
@given(
    kind=st.sampled_from(sorted(_KEYS)),
    shown=st.sampled_from(_SHOWN),
    literal=st.sampled_from(_LITERALS) | st.sampled_from(sorted({value for values in _KEYS.values() for value in values})),
    column=st.sampled_from(("id", "ID", '"id"', "t.id", "n", "_seq")),
    source=st.sampled_from(("app.{} t", "app.{} AS T", "APP.{}", "app.{} id", "lakewarden.app.{} t")),
    swapped=st.booleans(),
    freshness=st.sampled_from(("strong", "eventual", "oltp_only")),
)
def test_it_says_the_same_as_the_engine(
    ann: SqlSession, kind: str, shown: str, literal: str, column: str, source: str, swapped: bool, freshness: Freshness
) -> None:
    """The same text with `AND true` is no look-up."""
    condition = f"{literal} = {column}" if swapped else f"{column} = {literal}"
    text = f"SELECT {shown} FROM {source.format(_table(kind))} WHERE {condition}"
    for _ in range(2):  # of a shape that is seen for the first time, and of one that is known
        assert _answer(ann, text, freshness) == _answer(ann, f"{text} AND true", freshness)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "SELECT id 'x' FROM app.k_bigint WHERE id = 7",
        "SELECT n, 'x' y FROM app.k_text 'z' WHERE id = 'a'",
        "SELECT n FROM app.k_smallint WHERE id = 32768",
        "SELECT n FROM app.k_bigint WHERE id = '7'",
        "SELECT n FROM app.k_uuid WHERE id = '0191E3C5-7F4A-7CC2-98A1-000000000001'",
    ],
)
def test_what_looks_like_a_look_up_says_the_same_as_the_engine(ann: SqlSession, text: str) -> None:
    assert _answer(ann, text) == _answer(ann, f"{text} AND true")


@pytest.mark.parametrize(
    ("kind", "text", "is_string", "value"),
    [
        ("SMALLINT", "32767", False, 32767),
        ("SMALLINT", "32768", False, None),
        ("INT", "-2147483648", False, -2147483648),
        ("INT", "-2147483649", False, None),
        ("BIGINT", "7", False, 7),
        ("BIGINT", "7", True, None),
        ("BIGINT", "7.0", False, None),
        ("TEXT", "7", True, "7"),
        ("TEXT", "7", False, None),
        ("TEXT", "a\0b", True, None),
        ("UUID", "0191e3c5-7f4a-7cc2-98a1-000000000001", True, "0191e3c5-7f4a-7cc2-98a1-000000000001"),
        ("UUID", "0191E3C5-7F4A-7CC2-98A1-000000000001", True, None),
        ("UUID", "0191e3c57f4a7cc298a1000000000001", True, None),
        ("DATE", "2024-2-29", True, None),
        ("BOOLEAN", "true", True, None),
    ],
)
def test_a_literal_is_looked_up_where_it_is_exactly_a_value(kind: str, text: str, is_string: bool, value: object) -> None:
    assert exact_value(ColumnType.parse(kind), text, is_string=is_string) == value


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(
    kind=st.sampled_from(("BIGINT", "TEXT", "UUID", "DATE")),
    value=st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.decimals(-1_000, 1_000, places=2)
    | st.text()
    | st.binary(),
    mark=st.sampled_from(("?", "$1")),
)
def test_parameters_are_as_literals(ann: SqlSession, kind: str, value: Scalar, mark: str) -> None:
    text = f"SELECT id, v FROM app.{_table(kind)} WHERE id = {mark}"
    assert _answer(ann, text, params=[value]) == _answer(ann, f"{text} AND true", params=[value])


@pytest.mark.parametrize("freshness", ["strong", "eventual", "oltp_only"])
@pytest.mark.parametrize(
    "where",
    ["a = 1 AND b = 'a'", "'A' = b AND a = 1", "a = 1", "a = 1 AND b = 'a' AND a = 1", "a = 1 AND a = 2", "b = 'a' AND c = 'x'"],
)
def test_the_whole_key_of_a_partitioned_table(lake: Lakehouse, where: str, freshness: Freshness) -> None:
    bob = lake.session(user="bob", role="service")
    found, engine = (_answer(bob, f"SELECT * FROM app.pairs WHERE {where}{more}", freshness) for more in ("", " AND true"))
    assert found == engine
    if where.count("=") == 2 and "c" not in where and "a = 2" not in where and freshness == "strong":
        with _messages() as sent:
            assert _answer(bob, f"SELECT * FROM app.pairs WHERE {where}")[4][1] is QueryStrategy.UNARY_MERGED_STRONG  # type: ignore[index]
        assert sent == []


@pytest.mark.parametrize("text", ["SELECT * FROM app.k_bigint WHERE id = 7", "SELECT n, 'x' AS x FROM app.k_text WHERE 'a' = id"])
def test_a_look_up_sends_no_message_to_a_worker(ann: SqlSession, text: str) -> None:
    with _messages() as sent:
        (found,) = ann.sql(text)
    assert isinstance(found, ResultRows)
    assert found.table.num_rows == 1
    assert sent == []


@pytest.mark.parametrize(
    "text",
    ["SELECT count(*) + 41 FROM app.k_bigint", "EXPLAIN SELECT n FROM app.k_bigint", "SELECT n FROM app.k_bigint WHERE id = 7.0"],
)
def test_any_other_query_sends_one(ann: SqlSession, text: str) -> None:
    with _messages() as sent:
        ann.sql(text)
    assert sent in (["run"], ["explain"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT getenv('HOME'), n FROM app.k_bigint", "getenv"),
        ("SELECT getenv('HOME') FROM app.none", "getenv"),
        ("SELECT read_text('/etc/passwd') FROM app.k_bigint VERSION AS OF 99", "read_text"),
    ],
)
def test_what_the_engine_refuses_counts_before_all_else_and_is_recorded(
    lake: Lakehouse, ann: SqlSession, text: str, words: str
) -> None:
    before = _denials(lake)
    with pytest.raises(PermissionDenied, match=words):
        ann.sql(text)
    assert _denials(lake) == before + 1


def _denials(lake: Lakehouse) -> int:
    (found,) = lake.sql("SELECT * FROM system.audit_log WHERE action = 'DENIED'")
    assert isinstance(found, ResultRows)
    return found.table.num_rows


def test_no_statement_runs_where_the_engine_refuses_a_later_one(ann: SqlSession) -> None:
    with pytest.raises(PermissionDenied):
        ann.sql("INSERT INTO app.k_bigint (id) VALUES (4711); SELECT getenv('HOME')")
    assert _rows(ann, "SELECT id FROM app.k_bigint WHERE id = 4711") == []


def test_what_is_kept_of_a_text_holds_no_value(ann: SqlSession) -> None:
    for secret in ("'a secret'", "'another'"):
        assert _rows(ann, f"SELECT {secret} AS kept_once, id FROM app.k_text WHERE id = {secret}") == []
    assert "secret" not in str(_kept._values)
    assert sum("kept_once" in str(key) for key in _kept._values) == 1


def _rows(session: SqlSession, text: str) -> list[dict[str, object]]:
    (found,) = session.sql(text)
    assert isinstance(found, ResultRows)
    return found.to_pylist()


# What is asked at each run, however often the text was seen.
_TEXT = "SELECT v FROM own.t WHERE id = 1"


@pytest.fixture
def own(lake: Lakehouse) -> Iterator[SqlSession]:
    """A session of ann's, and a table that the test may change."""
    lake.sql("CREATE NAMESPACE own; CREATE SHARED TABLE own.t (id BIGINT PRIMARY KEY, v TEXT) WITH (ACCESS_LEVEL = 'PUBLIC')")
    lake.sql("INSERT INTO own.t VALUES (1, 'shared')")
    session = lake.session(user="ann", role="user")
    assert _rows(session, _TEXT) == [{"v": "shared"}]
    yield session
    lake.sql("ENABLE ENGINE own; DROP NAMESPACE own CASCADE")


def test_a_right_that_was_taken_is_missed_by_a_text_that_was_seen(lake: Lakehouse, own: SqlSession) -> None:
    lake.sql("ALTER TABLE own.t SET ACCESS LEVEL PRIVATE")
    with pytest.raises(PermissionDenied):
        own.sql(_TEXT)
    assert _rows(lake.session(user="eve", role="dba"), _TEXT) == [{"v": "shared"}]


def test_a_disabled_engine_answers_no_look_up(lake: Lakehouse, own: SqlSession) -> None:
    lake.sql("DISABLE ENGINE own")
    with pytest.raises(FailedPrecondition):
        own.sql(_TEXT)


def test_a_temporary_table_of_the_name_is_looked_up_instead(own: SqlSession) -> None:
    own.sql("CREATE TEMPORARY TABLE own.t (id BIGINT PRIMARY KEY, v TEXT); INSERT INTO own.t VALUES (1, 'temporary')")
    assert _rows(own, _TEXT) == [{"v": "temporary"}]
    own.sql("DROP TEMPORARY TABLE own.t")
    assert _rows(own, _TEXT) == [{"v": "shared"}]


def test_a_view_of_the_name_is_looked_up_instead(lake: Lakehouse, own: SqlSession) -> None:
    lake.sql("CREATE SHARED TABLE own.other (id BIGINT PRIMARY KEY, v TEXT) WITH (ACCESS_LEVEL = 'PUBLIC')")
    lake.sql("DROP TABLE own.t; CREATE VIEW own.t AS SELECT id, 'of the view' AS v FROM own.other")
    lake.sql("INSERT INTO own.other VALUES (1, 'other')")
    assert _rows(own, _TEXT) == [{"v": "of the view"}]


def test_a_table_that_was_made_anew_has_the_types_that_it_has_now(lake: Lakehouse, own: SqlSession) -> None:
    lake.sql("DROP TABLE own.t; CREATE SHARED TABLE own.t (id DECIMAL(5,1) PRIMARY KEY, v INT) WITH (ACCESS_LEVEL = 'PUBLIC')")
    lake.sql("INSERT INTO own.t VALUES (1.0, 7)")
    assert _rows(own, _TEXT) == [{"v": 7}]


def test_each_user_finds_rows_of_the_own_scope(lake: Lakehouse) -> None:
    lake.sql("INSERT INTO app.k_int (id, v) VALUES (99, 'of eve')", user="eve")
    text = "SELECT v FROM app.k_int WHERE id = 99"
    root = lake.session(user="root", role="system")
    assert _rows(lake.session(user="eve"), text) == [{"v": "of eve"}]
    assert _rows(lake.session(user="ann"), text) == []
    assert _rows(root, f"EXECUTE AS USER 'eve' ({text})") == [{"v": "of eve"}]


def test_a_block_sees_what_it_wrote(lake: Lakehouse, own: SqlSession) -> None:
    writer = lake.session(user="eve", role="dba")
    writer.sql("BEGIN; INSERT INTO own.t VALUES (2, 'of the block')")
    try:
        assert _rows(writer, "SELECT v FROM own.t WHERE id = 2") == [{"v": "of the block"}]
        writer.sql("UPDATE own.t SET v = 'changed' WHERE id = 1")
        assert _rows(writer, _TEXT) == [{"v": "changed"}]
        writer.sql("DELETE FROM own.t WHERE id = 1")
        assert _rows(writer, _TEXT) == []
        assert _rows(own, _TEXT) == [{"v": "shared"}], "nobody else sees what is not committed"
    finally:
        writer.sql("ROLLBACK")
    assert _rows(writer, _TEXT) == [{"v": "shared"}]


_HARD = (
    *("'it''s'", "''", "'a' 'b'", "1.5", "7e5", ".5", "x'41'", "E'a'", "'a\\'", "007", "1_000", "0x1F", "-7", "'--'", "'?'"),
    *("'/*' /* 1 */", "1 -- 2", "$$a$$", '"id"', "'\u00e4'", "'\n'", "9", "'plain'", "id", "1a", "'a'7", "7'a'"),
)


@pytest.mark.parametrize("first", _HARD)
def test_a_text_that_is_known_by_its_characters_means_what_its_tokens_mean(first: str) -> None:
    """Whatever was seen first: each other text is looked up by what its own tokens say, or parsed."""

    def read(text: str) -> object:
        try:
            (statement,) = parse(text)
        except LakewardenError as error:
            return error.code
        assert isinstance(statement, Query)
        return repr(statement.look_up), statement.query

    texts = [f"SELECT a, {value} FROM app.t WHERE id = {value}" for value in (first, *_HARD)]
    found = [read(text) for text in texts]
    assert _kept_texts._values or first not in ("9", "'plain'")
    for text, seen in zip(texts, found, strict=True):
        _kept_texts._values.clear()
        _kept._values.clear()
        assert read(text) == seen, text


# INSERTs of VALUES, of whose text the shape is kept.
_ROWS = (
    *("(1, 'a', 2)", "(9, 'b c', -3)", "(-7, '', 0)", "(5, 'it''s', 7)", "(4, 'x(y', 1), (3, 'z', 2)", "(2, NULL, DEFAULT)"),
    *("(6, CURRENT_USER(), 1.5)", "(8, '0', 5.0)", "(10, '\u00e9 1 ''2''', 12)", "(11, 'a', 1e2)", "(12, 'n', 1_000)"),
    *("('13', 'text', '4')", "(14, true, 1)", "(DATE '2020-01-01', 'x', 1)", "(15, 'y')", "(16, 17, 18), (19, 'w')"),
)


@pytest.mark.parametrize("columns", ["", " (id, v, n)", " (v, id)"])
@pytest.mark.parametrize(
    "first", ["(20, 'plain', 30)", "(21, 'q', -1)", "(22, NULL, 1)", "(23, 'r', 1.25)", "(24, 'a', 1), (25, 'b', 2)"]
)
def test_an_insert_whose_shape_was_seen_does_what_its_text_says(first: str, columns: str) -> None:
    def parsed(text: str) -> tuple[object, ...]:
        (found,) = parse(text)
        assert isinstance(found, Insert)
        return found.table, found.columns, found.rows, found.alias, found.conflict, found.files, found.is_plain

    texts = [f"INSERT INTO app.t{columns} VALUES {values}" for values in (first, *_ROWS, first)]
    found = [parsed(text) for text in texts]
    assert _kept._values
    for text, seen in zip(texts, found, strict=True):
        _kept_texts._values.clear()
        _kept._values.clear()
        assert parsed(text) == seen, text


@pytest.mark.parametrize(
    "clause", ["RETURNING *", "RETURNING id", "ON CONFLICT DO NOTHING", "ON CONFLICT (id) DO UPDATE SET v = excluded.v"]
)
def test_no_clause_of_an_insert_is_lost_where_its_text_was_seen(clause: str) -> None:
    plain = "INSERT INTO app.clauses VALUES (1, 'a', 2)"
    (first,), (again,), (without,) = parse(f"{plain} {clause}"), parse(f"{plain} {clause}"), parse(plain)
    assert first == again
    assert again != without


def test_what_is_kept_of_an_insert_holds_no_value() -> None:
    for number, secret in enumerate(("a secret", "another"), 77_001):
        parse("INSERT INTO app.kept_once AS k VALUES (?, ?, ?)", params=[number, secret, -number])
        parse(f"INSERT INTO app.kept_twice VALUES ({number}, '{secret}')")
    kept = str(_kept._values) + str(_kept_texts._values)
    assert "secret" not in kept
    assert "7700" not in kept
    assert [sum(name in str(key) for key in _kept._values) for name in ("kept_once", "kept_twice")] == [1, 1]


@pytest.mark.slow
def test_an_insert_that_was_seen_asks_for_its_right_each_time(lake: Lakehouse, own: SqlSession) -> None:
    lake.sql("CREATE USER TABLE own.mine (id BIGINT PRIMARY KEY, v TEXT); CREATE SHARED TABLE own.theirs (id BIGINT PRIMARY KEY)")
    for number in (1, 2):
        own.sql(f"INSERT INTO own.mine VALUES ({number}, 'ann')")
        with pytest.raises(PermissionDenied):
            own.sql(f"INSERT INTO own.theirs VALUES ({number})")
    lake.session(user="bob").sql("INSERT INTO own.mine VALUES (3, 'bob')")
    assert _rows(own, "SELECT id FROM own.mine ORDER BY id") == [{"id": 1}, {"id": 2}]
    lake.sql("ALTER TABLE own.mine ADD COLUMN w TEXT")
    own.sql("INSERT INTO own.mine VALUES (5, 'x', 'y')")
    with pytest.raises(LakewardenError, match="2 values are given for 3 columns"):
        own.sql("INSERT INTO own.mine VALUES (6, 'x')")
    lake.sql("DISABLE ENGINE own")
    with pytest.raises(FailedPrecondition):
        own.sql("INSERT INTO own.mine VALUES (7, 'x', 'y')")
