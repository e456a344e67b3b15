"""Values as SQL writes them: the ends of what their types hold, and the form in which a column keeps them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Context, Decimal

import pyarrow as pa
import pytest

from lakewarden import Lakehouse
from lakewarden.errors import ConstraintViolation, InvalidArgument, PermissionDenied
from lakewarden.sql.results import AffectedRows, ResultRows
from tests.fixtures.lakes import lake_fixture

_LARGEST = "9" * 38
_NUMBERS = "CREATE SHARED TABLE app.n (id BIGINT PRIMARY KEY, f FLOAT, d DOUBLE, i INT, m DECIMAL(38,0), s DECIMAL(38,10))"


lake = lake_fixture(sql=f"CREATE NAMESPACE app; {_NUMBERS}")


def _rows(lake: Lakehouse, text: str) -> list[tuple[object, ...]]:
    found = lake.sql(text)[-1]
    assert isinstance(found, ResultRows)
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize(
    "written", [_LARGEST, f"-{_LARGEST}", f"'{_LARGEST}'", f"{_LARGEST}.0", f"-{_LARGEST}.0", f"{_LARGEST} + 0"]
)
def test_a_decimal_takes_its_largest_value_as_a_literal_and_as_text(lake: Lakehouse, written: str) -> None:
    lake.sql(f"INSERT INTO app.n (id, m) VALUES (1, {written})")
    value = int(_LARGEST) * (-1 if written.startswith("-") else 1)
    assert _rows(lake, "SELECT m FROM app.n") == [(Decimal(value),)]


@pytest.mark.parametrize("given", [int(_LARGEST), Decimal(_LARGEST), _LARGEST])
def test_a_decimal_takes_its_largest_value_from_python(lake: Lakehouse, given: object) -> None:
    lake.table("app.n").write([{"id": 1, "m": given}])
    assert lake.table("app.n").read().column("m").to_pylist() == [Decimal(_LARGEST)]
    with pytest.raises(ConstraintViolation, match="38 digits before the point"):
        lake.table("app.n").write([{"id": 1, "m": int(_LARGEST) + 1}])


def test_a_decimal_keeps_every_digit(lake: Lakehouse) -> None:
    lake.sql("INSERT INTO app.n (id, s) VALUES (1, -1234567890123456789012345678.0123456789)")
    lake.sql(f"CREATE SHARED TABLE app.k (id BIGINT PRIMARY KEY, m DECIMAL(38,0) DEFAULT -{_LARGEST}.0)")
    lake.sql("INSERT INTO app.k (id) VALUES (1)")
    assert _rows(lake, "SELECT s FROM app.n") == [(Decimal("-1234567890123456789012345678.0123456789"),)]
    assert _rows(lake, "SELECT m FROM app.k") == [(Decimal(f"-{_LARGEST}"),)]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("SELECT * FROM (VALUES (1), (2)) WHERE 1 = 2", []),
        ("SELECT * FROM (VALUES (1), (2)) ORDER BY 1 DESC LIMIT 1", [2]),
        ("SELECT DISTINCT * FROM (VALUES (1), (1))", [1]),
        ("SELECT * REPLACE (7 AS col0) FROM (VALUES (1))", [7]),
        ("SELECT * EXCLUDE (col0) FROM (VALUES (1, 2))", [2]),
        ("FROM (VALUES (1), (2)) AS v (id) WHERE id > 1", [2]),
        ("VALUES (1), (2)", [1, 2]),
    ],
)
def test_an_insert_takes_the_rows_that_its_query_returns(lake: Lakehouse, query: str, ids: list[int]) -> None:
    assert lake.sql(f"INSERT INTO app.n (id) {query}") == [AffectedRows(len(ids))]
    assert _rows(lake, "SELECT id FROM app.n ORDER BY id") == [(each,) for each in ids]


@pytest.mark.parametrize(
    "rows",
    [
        "VALUES (length(getenv('HOME')))",
        "SELECT * FROM (VALUES (1)) WHERE getenv('HOME') <> ''",
        "SELECT * FROM (VALUES (1)) ORDER BY getenv('HOME')",
        "VALUES ((SELECT count(*) FROM read_text('/etc/hostname')))",
    ],
)
def test_values_with_anything_but_literals_are_checked(lake: Lakehouse, rows: str) -> None:
    with pytest.raises(PermissionDenied):
        lake.sql(f"INSERT INTO app.n (id) VALUES (7); INSERT INTO app.n (id) {rows}")
    assert _rows(lake, "SELECT id FROM app.n") == [], "before anything runs"


_OF_EACH = "CREATE SHARED TABLE app.e (id INT PRIMARY KEY, d DOUBLE, f FLOAT, day DATE, at TIMESTAMP, t TEXT, u UUID)"
_MOMENT = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column", "written"),
    [
        *(("d", each) for each in ("1.25", "-1.25", "(-7)", "9007199254740992", "0.1", "1e300")),
        *(("f", each) for each in ("0.1", "-2.5")),
        *(("day", each) for each in ("DATE '2026-02-03'", "CURRENT_DATE", "today()", "'2026-02-03'")),
        *(("at", each) for each in ("TIMESTAMP '2026-02-03 04:05:06.5'", "TIMESTAMP '2026-02-03'", "DATE '2026-02-03'")),
        *(("at", each) for each in ("'2026-02-03 04:05:06+02:00'::TIMESTAMPTZ", "NOW()", "CURRENT_TIMESTAMP")),
        *(("at", each) for each in ("get_current_timestamp()", "transaction_timestamp()")),
        *(("t", each) for each in ("CURRENT_USER", "CURRENT_USER()", "session_user", "'a''b'", "NULL", "(NULL)")),
    ],
)
def test_a_value_is_the_same_with_and_without_the_engine(
    warehouse_uri: str, monkeypatch: pytest.MonkeyPatch, column: str, written: str
) -> None:
    with Lakehouse.open(warehouse_uri, clock=lambda: _MOMENT) as lake:
        lake.sql(f"CREATE NAMESPACE app; {_OF_EACH}")
        lake.sql(f"INSERT INTO app.e (id, {column}) VALUES (1, CASE WHEN 1 = 1 THEN {written} END)")
        if not (column == "at" and written.startswith("DATE")):  # of another type than the column: the engine decides
            monkeypatch.setattr("lakewarden.sql.writing.values._computed", None)
        lake.sql(f"INSERT INTO app.e (id, {column}) VALUES (2, {written})")
        computed, plain = _rows(lake, f"SELECT {column} FROM app.e ORDER BY id")
    assert plain == computed


def test_all_functions_of_a_statement_have_one_moment(lake: Lakehouse) -> None:
    lake.sql(_OF_EACH)
    lake.sql("INSERT INTO app.e (id, at) VALUES (1, NOW()), (2, CURRENT_TIMESTAMP), (3, NOW() + INTERVAL 0 SECOND)")
    lake.sql("INSERT INTO app.e (id, at) VALUES (4, NOW()), (5, CURRENT_TIMESTAMP)")
    assert len({*_rows(lake, "SELECT at FROM app.e WHERE id < 4")}) == 1
    assert len({*_rows(lake, "SELECT at FROM app.e WHERE id >= 4")}) == 1


def test_ids_of_a_statement_differ(lake: Lakehouse) -> None:
    lake.sql(_OF_EACH)
    lake.sql(
        "INSERT INTO app.e (id, u) VALUES (1, GENERATE_UUID()), (2, GENERATE_UUID()), (3, UUID_V7()), (4, gen_random_uuid())"
    )
    lake.sql("INSERT INTO app.e (id, t) VALUES (5, ULID()), (6, ULID()), (7, SNOWFLAKE_ID()::TEXT)")
    assert len({*_rows(lake, "SELECT coalesce(u, t) FROM app.e")}) == 7


_BEYOND = [
    ("d", "1e309"),
    ("d", "-1e309"),
    ("d", "1e-400"),
    ("d", "1e999999999999"),
    ("d", f"1{'0' * 309}"),
    ("d", f"0.{'0' * 400}1"),
    ("f", "1e39"),
    ("f", "1e-46"),
    ("f", "-1e-46"),
    ("f", f"0.{'0' * 50}1"),
    ("i", "1e309"),
    ("i", "3e9"),
    ("i", f"{_LARGEST}.5"),
]


@pytest.mark.parametrize(("column", "written"), _BEYOND)
def test_a_number_beyond_the_column_is_refused_however_it_comes(lake: Lakehouse, column: str, written: str) -> None:
    lake.sql("INSERT INTO app.n (id) VALUES (1)")
    for text in (
        f"INSERT INTO app.n (id, {column}) VALUES (2, {written})",
        f"INSERT INTO app.n (id, {column}) SELECT 2, {written}",
        f"INSERT INTO app.n (id, {column}) VALUES (1, 0) ON CONFLICT DO UPDATE SET {column} = {written}",
        f"UPDATE app.n SET {column} = {written} WHERE id = 1",
    ):
        with pytest.raises(ConstraintViolation):
            lake.sql(text)
    assert _rows(lake, f"SELECT id, {column} FROM app.n") == [(1, None)]


@pytest.mark.parametrize("given", [1e-46, Decimal("1e-46"), -1e-46, 1e39])
def test_a_number_beyond_float_is_refused_from_python(lake: Lakehouse, given: object) -> None:
    table = lake.table("app.n")
    with pytest.raises(ConstraintViolation, match="in the range of 32 bits"):
        table.write([{"id": 1, "f": given}])
    with pytest.raises(ConstraintViolation, match="in the range of 32 bits"):
        table.write(pa.table({"id": [1], "f": [float(given)]}))  # type: ignore[arg-type]


def test_numbers_at_the_ends_of_their_ranges_are_kept(lake: Lakehouse) -> None:
    lake.sql("INSERT INTO app.n (id, f, d, i) VALUES (1, 1e-45, 4.9e-324, 2e9), (2, 3.4028234e38, 1.7976931348623157e308, -2e9)")
    lake.sql("INSERT INTO app.n (id, f, d) VALUES (3, 0.0, -0e-999), (4, 'inf'::FLOAT, 'inf'::DOUBLE)")
    assert _rows(lake, "SELECT f, d, i FROM app.n ORDER BY id") == [
        (1.401298464324817e-45, 5e-324, 2_000_000_000),
        (3.4028234663852886e38, 1.7976931348623157e308, -2_000_000_000),
        (0.0, 0.0, None),
        (float("inf"), float("inf"), None),
    ]


def test_a_query_refuses_a_literal_that_no_double_holds(lake: Lakehouse) -> None:
    for text in ("SELECT 1e309", "SELECT * FROM app.n WHERE d < 1e-400", "EXPLAIN SELECT -1e400"):
        with pytest.raises(ConstraintViolation, match="64 bits"):
            lake.sql(text)
    assert _rows(lake, "SELECT 1_000, 1e3") == [(1000, 1000.0)]
    with pytest.raises(ConstraintViolation, match="column 'd': -1e400"):
        lake.sql("INSERT INTO app.n (id, d) VALUES (9, -1e400)")


_MISFITS = (
    *(("d", number, "is out of DOUBLE's range.* up to 1.797") for number in ("1e400", "-1e-400", "2 * 1e400")),
    ("f", "1e400", "is out of DOUBLE's range"),
    ("i", "1e400", "is out of DOUBLE's range"),
    ("i", "3000000000", "takes a whole number from -2147483648"),
    ("b", "FROM_BASE64('AQ*=')", "FROM_BASE64 takes four characters .* not 'AQ"),
    ("b", "FROM_BASE64('AQI')", "FROM_BASE64 takes four characters .* not 'AQI'"),
)
_GIVEN = (
    "INSERT INTO app.n (id, {}) VALUES (1, {})",
    "INSERT INTO app.n (id, {}) SELECT 1, {}",
    "INSERT INTO app.n (id) VALUES (9) ON CONFLICT (id) DO UPDATE SET {} = {}",
    "UPDATE app.n SET {} = {} WHERE id = 9",
    "MERGE INTO app.n USING (SELECT 9 AS id) q ON n.id = q.id WHEN MATCHED THEN UPDATE SET {} = {}",
    "MERGE INTO app.n USING (SELECT 1 AS id) q ON n.id = q.id WHEN NOT MATCHED THEN INSERT (id, {}) VALUES (q.id, {})",
)


@pytest.mark.slow
def test_what_does_not_fit_is_named_by_its_column_in_every_statement(lake: Lakehouse) -> None:
    lake.sql("ALTER TABLE app.n ADD COLUMN b BYTES")
    lake.sql("INSERT INTO app.n (id) VALUES (9)")
    for statement in _GIVEN:
        for column, value, why in _MISFITS:
            with pytest.raises((ConstraintViolation, InvalidArgument), match=f"column '{column}'.*{why}"):
                lake.sql(statement.format(column, value))
    assert _rows(lake, "SELECT id, f, d, i, b FROM app.n") == [(9, None, None, None, None)]
    lake.sql("INSERT INTO app.n (id, b) VALUES (1, FROM_BASE64('AQI=')), (2, FROM_BASE64(''))")
    assert _rows(lake, "SELECT b FROM app.n WHERE id < 9 ORDER BY id") == [(b"\x01\x02",), (b"",)]


def test_a_text_that_is_not_base64_is_named_where_it_is_bound(lake: Lakehouse) -> None:
    lake.sql("CREATE SHARED TABLE app.b (id BIGINT PRIMARY KEY, b BYTES)")
    session = lake.session(user="ann", role="dba")
    for text in ("AQI", "AQ I", "*"):
        with pytest.raises(InvalidArgument, match=f"column 'b': FROM_BASE64 takes .* not '{re.escape(text)}'"):
            session.sql("INSERT INTO app.b VALUES (1, FROM_BASE64(?))", params=[text])
    session.sql("INSERT INTO app.b VALUES (1, TRY(FROM_BASE64('*')))")
    assert _rows(lake, "SELECT * FROM app.b") == [(1, None)]


def test_current_user_of_a_shared_table_is_who_writes(lake: Lakehouse) -> None:
    lake.sql("CREATE SHARED TABLE app.s (id BIGINT PRIMARY KEY, who TEXT NOT NULL DEFAULT CURRENT_USER(), n INT)")
    lake.sql("INSERT INTO app.s (id) VALUES (1)", user="ann", role="service")
    lake.sql("INSERT INTO app.s (id, who) VALUES (2, DEFAULT), (3, 'given')", user="ben", role="dba")
    lake.sql("INSERT INTO app.s (id, n) VALUES (3, 1) ON CONFLICT DO UPDATE SET who = DEFAULT", user="cyd", role="dba")
    lake.session(user="dan", role="service").table("app.s").write([{"id": 4}, {"id": 5, "who": "given"}])
    lake.table("app.s").write(pa.table({"id": [6]}))
    assert lake.sql("UPDATE app.s SET who = DEFAULT WHERE id = 5", user="eve", role="dba") == [AffectedRows(1)]
    written = ["ann", "ben", "cyd", "dan", "eve", "root"]
    assert _rows(lake, "SELECT who FROM app.s ORDER BY id") == [(who,) for who in written]


def test_current_user_of_a_user_table_is_whose_row_it_is(lake: Lakehouse) -> None:
    lake.sql("CREATE USER TABLE app.u (id BIGINT PRIMARY KEY, who TEXT DEFAULT CURRENT_USER())")
    lake.table("app.u").write([{"id": 1, "tenant": "ann"}, {"id": 1, "tenant": "ben"}], user_column="tenant")
    lake.session(user="cyd", role="user").table("app.u").write([{"id": 1}])
    assert [lake.table("app.u").read(user=user).column("who").to_pylist() for user in ("ann", "ben", "cyd")] == [
        ["ann"],
        ["ben"],
        ["cyd"],
    ]


_ID, _WRITTEN = "550e8400-e29b-41d4-a716-446655440000", "550E8400-E29B-41D4-A716-446655440000"
_KEPT = "CREATE SHARED TABLE app.k (id UUID PRIMARY KEY, t TIME, name TEXT)"


@pytest.mark.covering
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT id FROM app.k WHERE id = '{_WRITTEN}'",
        f"SELECT id FROM app.k WHERE '{_WRITTEN}' = ID",
        f"SELECT id FROM app.k WHERE id IN ('no uuid', ('{_WRITTEN}'))",
        f"SELECT id FROM app.k WHERE id BETWEEN '{_WRITTEN}' AND UUID '{_WRITTEN}'",
        f"SELECT k.id FROM app.k JOIN app.k AS other USING (id) WHERE id = UUID '{_WRITTEN}'",
        f"SELECT id FROM app.k WHERE id IS NOT DISTINCT FROM '{_WRITTEN}'",
        f"SELECT id FROM app.v WHERE id = '{_WRITTEN}'",
        f"SELECT one FROM (SELECT id AS one FROM app.k) x WHERE x.one = '{_WRITTEN}'",
        f"WITH x AS (SELECT * FROM app.k) SELECT id FROM x WHERE id = '{_WRITTEN}'",
        f"SELECT id FROM (SELECT id FROM app.k UNION ALL SELECT id FROM app.k WHERE false) WHERE id = '{_WRITTEN}'",
        f"SELECT id FROM app.k WHERE EXISTS (SELECT 1 FROM range(1) WHERE k.id = '{_WRITTEN}')",
        f"SELECT id FROM app.k WHERE CASE id WHEN '{_WRITTEN}' THEN true ELSE false END",
        f"SELECT id FROM app.k WHERE NOT id <> '{_WRITTEN}'",
        f"SELECT id FROM app.k WHERE (id) = '{_WRITTEN}'",
        f"SELECT id FROM app.k WHERE (id, name) = ('{_WRITTEN}', 'one')",
        f"SELECT id FROM app.k WHERE ('one', UUID '{_WRITTEN}') = (name, id)",
        f"SELECT id FROM app.k WHERE (name, (id, 1)) IN (('two', ('{_WRITTEN}', 1)), ('one', ('{_WRITTEN}', 1)))",
        f"SELECT id FROM app.k WHERE ROW(id, name) IS NOT DISTINCT FROM ROW('{_WRITTEN}', 'one')",
        f"SELECT id FROM app.k WHERE id = ANY(['no uuid', '{_WRITTEN}'])",
        f"SELECT id FROM app.k WHERE id = ANY(ARRAY['{_WRITTEN}'])",
        f"SELECT id FROM app.k WHERE id = ANY(['{_ID}', '{_WRITTEN}']::UUID[])",
        f"SELECT id FROM app.k WHERE NOT id <> ALL(CAST(['{_WRITTEN}'] AS UUID[]))",
    ],
)
def test_a_uuid_is_found_however_it_is_written(lake: Lakehouse, query: str, flushed: bool) -> None:
    lake.sql(f"{_KEPT}; CREATE VIEW app.v AS SELECT * FROM app.k; INSERT INTO app.k VALUES ('{_WRITTEN}', NULL, 'one')")
    lake.sql("INSERT INTO app.k VALUES (UUID_V7(), NULL, 'two')")
    if flushed:
        lake.flush("app.k")
    assert _rows(lake, query) == [(_ID,)]


def test_a_uuid_is_changed_and_removed_however_it_is_written(lake: Lakehouse) -> None:
    lake.sql(f"{_KEPT}; INSERT INTO app.k VALUES ('{_WRITTEN}', NULL, 'one'); STORAGE FLUSH TABLE app.k")
    assert lake.sql(f"UPDATE app.k SET name = 'two' WHERE id = '{_WRITTEN}'") == [AffectedRows(1)]
    assert lake.sql(f"DELETE FROM app.k WHERE id = '{_WRITTEN}'") == [AffectedRows(1)]


def test_text_keeps_its_case_beside_a_uuid(lake: Lakehouse) -> None:
    lake.sql(f"{_KEPT}; INSERT INTO app.k VALUES ('{_WRITTEN}', NULL, '{_WRITTEN}')")
    assert _rows(lake, f"SELECT name FROM app.k WHERE name = '{_WRITTEN}'") == [(_WRITTEN,)]
    assert _rows(lake, f"SELECT upper(id) AS up FROM app.k WHERE upper(id) = '{_WRITTEN}'") == [(_WRITTEN,)]
    assert _rows(lake, f"SELECT id FROM (SELECT upper(id) AS id FROM app.k) WHERE id = '{_WRITTEN}'") == [(_WRITTEN,)]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("t = TIME '09:30:00'", [1]),
        ("t = '09:30'", [1]),
        ("TIME '09:30:00.000001' > t", [1]),
        ("t BETWEEN TIME '09:00:00' AND '17:00'", [1, 2]),
        ("t IN ('09:30', TIME '23:59:59.999999')", [1, 3]),
        ("t <> CAST('09:30' AS TIME)", [2, 3]),
        ("CASE t WHEN '16:00' THEN true ELSE false END", [2]),
        ("t = 34200000000", [1]),
    ],
)
def test_a_time_is_compared_with_a_time(lake: Lakehouse, condition: str, found: list[int]) -> None:
    lake.sql("CREATE SHARED TABLE app.c (id BIGINT PRIMARY KEY, t TIME)")
    lake.sql("INSERT INTO app.c VALUES (1, '09:30:00'), (2, TIME '16:00:00'), (3, '23:59:59.999999'), (4, NULL)")
    assert _rows(lake, f"SELECT id FROM app.c WHERE {condition} ORDER BY id") == [(each,) for each in found]
    assert lake.sql(f"UPDATE app.c SET t = '10:00:00' WHERE {condition}") == [AffectedRows(len(found))]


def test_text_that_is_no_time_is_refused(lake: Lakehouse) -> None:
    lake.sql("CREATE SHARED TABLE app.c (id BIGINT PRIMARY KEY, t TIME); INSERT INTO app.c VALUES (1, '09:30')")
    with pytest.raises(InvalidArgument, match="25:00"):
        lake.sql("SELECT id FROM app.c WHERE t = '25:00'")


_EXACT = [
    ("s", "1234567890123456789012345678.12345678910", "1234567890123456789012345678.1234567891"),
    ("s", "123456789012345.6789e0", "123456789012345.6789"),
    ("s", "-1.2345678901234567891e18", "-1234567890123456789.1"),
    ("s", "00000000000000000000000000000000000000000123456789012345.6789", "123456789012345.6789"),
    ("m", "123456789012345678901234567890123456780e-1", "12345678901234567890123456789012345678"),
    ("m", "12345678901234567890123456789012345678.0", "12345678901234567890123456789012345678"),
    ("b", "0.12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"),
    ("b", "-.12345678901234567890123456789012345678", "-0.12345678901234567890123456789012345678"),
]
"""Numbers that DuckDB reads in DOUBLE, where they are others."""

_INTO = (
    "UPDATE app.w SET {c} = {n} WHERE id = 1",
    "UPDATE app.w SET {c} = CASE WHEN id = 1 THEN {n} END WHERE true",
    "INSERT INTO app.w (id, {c}) VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET {c} = {n}",
    "INSERT INTO app.w (id, {c}) SELECT 1, {n} ON CONFLICT (id) DO UPDATE SET {c} = excluded.{c}",
    "MERGE INTO app.w t USING (VALUES (1)) s (id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET {c} = {n}",
    "MERGE INTO app.w t USING (VALUES (1, {n})) s (id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET {c} = s.v",
)


@pytest.mark.slow
@pytest.mark.parametrize(("column", "written", "value"), _EXACT)
def test_a_number_of_any_spelling_is_stored_and_compared_as_it_is_written(
    lake: Lakehouse, column: str, written: str, value: str
) -> None:
    lake.sql("CREATE SHARED TABLE app.w (id BIGINT PRIMARY KEY, m DECIMAL(38,0), s DECIMAL(38,10), b DECIMAL(38,38))")
    for text in _INTO:
        lake.sql(f"INSERT INTO app.w (id, {column}) VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET {column} = 0")
        lake.sql(text.format(c=column, n=written))
        assert _rows(lake, f"SELECT {column} FROM app.w") == [(Decimal(value),)], text
    for condition in ("= {0}", "BETWEEN {0} AND {0}", "IN (0, {0})", ">= ({0})", "IS NOT DISTINCT FROM {0}", "= ANY([{0}])"):
        assert _rows(lake, f"SELECT id FROM app.w WHERE {column} {condition.format(written)}") == [(1,)], condition
    lake.table("app.w").write([{"id": 1, column: Decimal(value).next_plus(Context(prec=len(Decimal(value).as_tuple().digits)))}])
    for condition in ("= {0}", "<= {0}", "IN (0, {0})", "= ANY([{0}])"):  # the value beside it
        assert lake.sql(f"DELETE FROM app.w WHERE {column} {condition.format(written)}") == [AffectedRows(0)], condition


def test_a_number_that_no_decimal_holds_is_refused_where_it_would_be_one(lake: Lakehouse) -> None:
    number = "1234567890123456789012345678.12345678912"
    lake.sql("INSERT INTO app.n (id, d, s) VALUES (1, 3.2, 1234567890123456789012345678.1234567891)")
    for text in (f"UPDATE app.n SET s = {number} WHERE id = 1", f"DELETE FROM app.n WHERE s = {number}"):
        with pytest.raises(ConstraintViolation, match="12345678912"):
            lake.sql(text)
    pi = "3.14159265358979323846264338327950288419716939937510"
    beside = f"d > {pi}, d IN (1, {pi}), s > 1.7976931348623158079e308, {pi}::DOUBLE, 2 * CAST(-{pi} AS FLOAT8)"
    assert _rows(lake, f"SELECT {beside} FROM app.n") == [(True, False, False, 3.141592653589793, -6.283185307179586)]
    lake.sql(f"UPDATE app.n SET d = {pi}, f = {pi} WHERE id = 1")
    lake.sql(f"INSERT INTO app.n (id, d) SELECT 2, {pi}")
    assert _rows(lake, "SELECT d FROM app.n") == [(3.141592653589793,), (3.141592653589793,)]


def test_a_whole_number_beyond_a_decimal_is_shown_and_compared(lake: Lakehouse) -> None:
    lake.sql("INSERT INTO app.n (id, i, s, d) VALUES (1, 1, 1, 1)")
    assert _rows(lake, f"SELECT {_LONG} AS a, [-{_LONG}]::TEXT[] AS b, {_LONG}::TEXT AS c") == [
        (int(_LONG), [f"-{_LONG}"], _LONG)
    ]
    conditions = [f"{column} < {_LONG} AND {column} > -{_LONG} AND {column} <> {_LONG}" for column in ("i", "s", "d")]
    assert _rows(lake, f"SELECT {', '.join(conditions)} FROM app.n") == [(True, True, True)]


_LONG = f"1{'0' * 39}1"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0 + 1.23456789012345678901e0", "1.23456789012345678901"),
        ("-(1.23456789012345678901e0 - 1)", "-0.23456789012345678901"),
        ("abs(-1.23456789012345678901e0)", "1.23456789012345678901"),
        ("CAST(-1.23456789012345678901e0 AS DECIMAL(38, 19))", "-1.2345678901234567890"),
        ("greatest(1, 123456789012345678.123456e0)", "123456789012345678.123456"),
        ("2 * 3.14159265358979323846264338327950288419716939937510", None),
        (f"0 * {_LONG}", None),
        (f"{_LONG} - {_LONG}", None),
        (f"-{_LONG}", None),
        ("round(0.12345678901234567890123456789012345678901e0, 2)", None),
    ],
)
def test_a_number_in_arithmetic_is_as_it_is_written_or_refused(lake: Lakehouse, written: str, value: str | None) -> None:
    lake.sql("CREATE SHARED TABLE app.w (id BIGINT PRIMARY KEY, v DECIMAL(38,20)); INSERT INTO app.w VALUES (1, 0)")
    texts = [
        f"INSERT INTO app.w (id, v) SELECT 2, {written}",
        f"INSERT INTO app.w (id, v) VALUES (3, {written})",
        f"UPDATE app.w SET v = {written} WHERE id = 1",
        f"DELETE FROM app.w WHERE v + 0 <> {written}",
    ]
    if value is not None:
        for text in texts:
            lake.sql(text)
        assert _rows(lake, "SELECT v FROM app.w") == [(Decimal(value),)] * 3
        return
    for text in (*texts, f"SELECT 0 + {written}"):
        with pytest.raises(ConstraintViolation, match=r"more digits|does not fit"):
            lake.sql(text)
    assert _rows(lake, "SELECT id, v FROM app.w") == [(1, 0)]


@pytest.mark.parametrize("written", ["-0", "-0.0", "(-0.0)", "-0e3", "-0.0::DOUBLE"])
@pytest.mark.parametrize("column", ["f", "d"])
def test_a_minus_zero_keeps_its_sign(lake: Lakehouse, column: str, written: str) -> None:
    for text in (
        f"INSERT INTO app.n (id, {column}) VALUES (1, {written})",
        f"INSERT INTO app.n (id, {column}) SELECT 2, {written}",
        f"INSERT INTO app.n (id, {column}) SELECT id + 2, {written} AS zero FROM app.n WHERE id = 1",
        f"INSERT INTO app.n (id, {column}) VALUES (4, 1), (5, 1); UPDATE app.n SET {column} = {written} WHERE id > 3",
    ):
        lake.sql(text)
    assert [str(value) for _, value in _rows(lake, f"SELECT id, {column} FROM app.n")] == ["-0.0"] * 5
    lake.sql(f"INSERT INTO app.n (id, i, s) VALUES (6, {written}, {written})")
    assert str(_rows(lake, "SELECT i, s FROM app.n WHERE id = 6")) == "[(0, Decimal('0E-10'))]"


_BARE = [
    ("'1.23456'::NUMERIC", "1.23456"),
    ("CAST(-1.23456 AS DECIMAL)", "-1.23456"),
    ("NUMERIC '0.00000000000000000000000000000000000001'", "1e-38"),
    (f"CAST('{_LARGEST}' AS NUMERIC)", _LARGEST),
    ("CAST('12e-4' AS NUMERIC)", "0.0012"),
    ("TRY_CAST('x' AS DECIMAL)", None),
    ("CAST(s AS NUMERIC)", "1.0000000001"),
    ("(SELECT s FROM app.n)::DECIMAL + 0", "1.0000000001"),
    ("CAST(avg(id) OVER () AS NUMERIC)", "1"),
    ("CAST(1.23456 AS DECIMAL(10, 2))", "1.23"),  # what is written is done
]


@pytest.mark.parametrize(("written", "value"), _BARE)
def test_a_cast_to_numeric_without_digits_keeps_them(lake: Lakehouse, written: str, value: str | None) -> None:
    lake.sql("INSERT INTO app.n (id, s) VALUES (1, 1.0000000001)")
    assert _rows(lake, f"SELECT {written} FROM app.n") == [(None if value is None else Decimal(value),)]


def test_a_cast_to_numeric_that_38_digits_do_not_hold_is_refused(lake: Lakehouse) -> None:
    for written in ("'1" + "0" * 38 + "'::NUMERIC", "1e30::DOUBLE::NUMERIC"):
        with pytest.raises(InvalidArgument, match="DECIMAL"):
            lake.sql(f"SELECT {written}")


@pytest.mark.slow
@pytest.mark.parametrize("column", ["f", "d"])
def test_an_update_changes_zero_to_minus_zero_and_leaves_nan(lake: Lakehouse, column: str) -> None:
    def updated(value: str) -> int:
        found = lake.sql(f"UPDATE app.n SET {column} = {value} WHERE id = 1")[-1]
        assert isinstance(found, AffectedRows)
        return found.rows

    lake.sql(f"INSERT INTO app.n (id, {column}) VALUES (1, 0.0)")
    assert [updated("-0.0"), updated("-0.0"), updated("0.0"), updated("-0.0::DOUBLE"), updated("0")] == [1, 0, 1, 1, 1]
    assert [updated("'NaN'::DOUBLE"), updated("'NaN'::FLOAT"), updated("NULL"), updated("NULL")] == [1, 0, 1, 0]
    assert [updated("'-Infinity'"), updated("'-Infinity'::DOUBLE"), updated("1e-45")] == [1, 0, 1]
    lake.sql(
        "MERGE INTO app.n t USING (SELECT 2 AS id) s ON t.id = s.id"
        f" WHEN NOT MATCHED THEN INSERT (id, {column}) VALUES (s.id, -0.0)"
    )
    assert str(_rows(lake, f"SELECT {column} FROM app.n WHERE id = 2")[0][0]) == "-0.0"


def test_texts_that_stand_for_no_number_are_values_of_floating_point_columns_alone(lake: Lakehouse) -> None:
    lake.sql("INSERT INTO app.n (id, f, d) VALUES (1, 'NaN', '-Infinity'), (2, 'Infinity', 'NaN')")
    assert str(_rows(lake, "SELECT f, d FROM app.n ORDER BY id")) == "[(nan, -inf), (inf, nan)]"
    for column, text in (("s", "NaN"), ("i", "Infinity"), ("d", "nan"), ("d", "1.5")):
        with pytest.raises(ConstraintViolation, match=column):
            lake.sql(f"INSERT INTO app.n (id, {column}) VALUES (3, '{text}')")


_FAR = [
    ("DATE '0044-03-15 (BC)'", "-0043-03-15"),
    ("'infinity'::DATE", "infinity"),
    ("TIMESTAMP '10000-01-01 00:00:00.000001'", "10000-01-01T00:00:00.000001+00:00"),
    ("'-infinity'::TIMESTAMPTZ", "-infinity"),
    ("['infinity'::DATE, DATE '2000-01-01']", ["infinity", date(2000, 1, 1)]),
    ("{'x': TIMESTAMP_S '10000-01-01 00:00:00'}", {"x": "10000-01-01T00:00:00.000000+00:00"}),
    ("MAP {DATE '10000-01-01': 1}", [("10000-01-01", 1)]),
]


@pytest.mark.parametrize(("written", "value"), _FAR)
def test_a_moment_outside_pythons_calendar_is_text_at_any_depth(lake: Lakehouse, written: str, value: object) -> None:
    assert _rows(lake, f"SELECT {written}") == [(value,)]
