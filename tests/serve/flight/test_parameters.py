"""Prepared statements, bulk ingest and listings over Flight SQL, by ADBC's driver."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from lakewarden import Lakehouse
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.flight.messages import decoded
from lakewarden.serve.flight.messages_pb2 import FlightData
from lakewarden.serve.flight.rows import received, sent
from tests.serve.flight.conftest import Connect

pytestmark = pytest.mark.xdist_group("flight")

HOSTILE = ["'); DROP TABLE app.notes; --", "x' OR '1'='1", "?", "$1", "", "é\n\t'\"", -5, -(2**63), 1.5, 1e300, True, None]


@pytest.fixture(scope="module", autouse=True)
def _secret(lake: Lakehouse) -> None:
    lake.sql("CREATE TABLE app.secret (id BIGINT PRIMARY KEY) WITH (TYPE = 'SHARED'); CREATE VIEW app.seen AS SELECT 1 AS one")


def test_a_parameter_is_a_value_whatever_it_holds(cursor: dbapi.Cursor) -> None:
    cursor.execute(f"SELECT {', '.join('?' for _ in HOSTILE)}", HOSTILE)
    found = cursor.fetchone()
    assert found is not None
    assert [float(one) if isinstance(one, Decimal) else one for one in found] == HOSTILE


def test_times_and_decimals_are_parameters_too(cursor: dbapi.Cursor) -> None:
    moment = datetime(2026, 11, 23, 9, 30, 0, 5, tzinfo=UTC)
    text = "SELECT $1::TIMESTAMPTZ = TIMESTAMPTZ '2026-11-23 09:30:00.000005+00', $2::DECIMAL(9, 2)"
    cursor.execute(text, (moment, Decimal("-1.25")))
    assert cursor.fetchone() == (True, Decimal("-1.25"))


def test_many_rows_of_parameters_are_one_write_or_none(cursor: dbapi.Cursor) -> None:
    cursor.executemany("INSERT INTO app.notes VALUES (?, ?)", [(number, f"n {number}") for number in range(10, 210)])
    assert cursor.rowcount == 200
    with pytest.raises(Error, match="CONSTRAINT_VIOLATION"):
        cursor.executemany("INSERT INTO app.notes VALUES (?, ?)", [(210, "new"), (10, "taken")])
    cursor.executemany("UPDATE app.notes SET body = ? WHERE id = ?", [("a", 10), ("b", 11)])
    cursor.execute("SELECT count(*), min(body) FROM app.notes WHERE id BETWEEN ? AND ?", (10, 300))
    assert cursor.fetchone() == (200, "a")


def test_rows_of_parameters_that_a_query_selects_from_are_a_write_each(cursor: dbapi.Cursor) -> None:
    """One of each row's: the LIMIT would count over the rows of all."""
    insert = "INSERT INTO app.notes SELECT * FROM (VALUES (?, ?)) AS v (id, body) LIMIT 1"
    cursor.executemany(insert, [(501, "a"), (502, "b"), (503, "c")])
    cursor.execute("SELECT count(*) FROM app.notes WHERE id BETWEEN 501 AND 503")
    assert cursor.fetchone() == (3,)


def test_a_prepared_write_runs_once_each_time(cursor: dbapi.Cursor) -> None:
    for number in (400, 401):
        cursor.execute("INSERT INTO app.notes VALUES (?, ?)", (number, None))
        assert cursor.fetchall() == [(1, None)]


def test_bulk_ingest_appends_by_the_rules_of_insert(cursor: dbapi.Cursor, lake: Lakehouse) -> None:
    rows = pa.table({"id": range(1000, 6000), "body": ["x"] * 5000})
    assert cursor.adbc_ingest("notes", rows, mode="append", db_schema_name="app") == 5000
    for table, mode, error in (
        ("notes", "append", "CONSTRAINT_VIOLATION"),
        ("fresh", "create", "UNSUPPORTED"),
        ("secret", "append", "PERMISSION_DENIED"),
        ("absent", "append", "NOT_FOUND"),
    ):
        with pytest.raises(Error, match=error):
            cursor.adbc_ingest(table, rows, mode=mode, db_schema_name="app")  # type: ignore[arg-type]  # a text
    lake.sql("DISABLE ENGINE app")
    try:
        with pytest.raises(Error, match="FAILED_PRECONDITION"):
            cursor.adbc_ingest("notes", rows, mode="append", db_schema_name="app")
    finally:
        lake.sql("ENABLE ENGINE app")


def test_only_what_the_caller_may_read_is_listed(connected: Connect) -> None:
    ann = connected("ann")
    (catalog,) = ann.adbc_get_objects(depth="columns", db_schema_filter="ap%").read_all().to_pylist()
    (namespace,) = catalog["catalog_db_schemas"]
    tables = {one["table_name"]: [each["column_name"] for each in one["table_columns"]] for one in namespace["db_schema_tables"]}
    assert tables == {"notes": ["id", "body"], "seen": []}
    found = ann.adbc_get_objects(depth="tables", table_name_filter="n_tes", table_types_filter=["TABLE"]).read_all().to_pylist()
    namespaces = found[0]["catalog_db_schemas"]
    assert [one["table_name"] for each in namespaces for one in each["db_schema_tables"] or ()] == ["notes"]
    assert ann.adbc_get_table_schema("notes", db_schema_filter="app").names == ["id", "body"]
    assert ann.adbc_get_table_types() == ["TABLE", "VIEW"]
    assert ann.adbc_get_info()["vendor_name"] == "Lakewarden"


def _flight(table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> list[FlightData]:
    if options is None:
        return [decoded(FlightData, message) for message in sent(table.schema, [table])]
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return [
        FlightData(data_header=one.metadata.to_pybytes(), data_body=b"" if one.body is None else one.body.to_pybytes())
        for one in pa.ipc.MessageReader.open_stream(sink.getvalue())
    ]


def test_rows_arrive_as_they_were_sent() -> None:
    table = pa.table({"n": [1, None], "t": ["x", None], "l": pa.array([[1.0], None], pa.list_(pa.float32())), "z": pa.nulls(2)})
    assert received(iter(_flight(table)), 1 << 20).equals(table)
    assert received(iter([]), 1).num_columns == 0


ZEROS = pa.table({"n": [0] * 100_000})
BOMBS = {
    "zstd": (_flight(ZEROS, pa.ipc.IpcWriteOptions(compression="zstd")), Unsupported),
    "lz4": (_flight(ZEROS, pa.ipc.IpcWriteOptions(compression="lz4")), Unsupported),
    "dictionary": (_flight(pa.table({"t": pa.array(["x" * 1000] * 1000).dictionary_encode()})), Unsupported),
    "nothing": (_flight(pa.table({"n": pa.nulls(1_000_000)})), InvalidArgument),
    "view": (_flight(pa.table({"t": pa.array(["x" * 100], pa.string_view())})), Unsupported),
    "too many": (_flight(pa.table({"n": range(1_000_000)})), RequestDeclined),
    "no Arrow": ([FlightData(data_header=b"\xff" * 64)], InvalidArgument),
    "cut off": ([FlightData(data_header=b"\x01")], InvalidArgument),
}


@pytest.mark.parametrize("name", BOMBS)
def test_few_bytes_that_would_become_many_are_refused(name: str) -> None:
    messages, refusal = BOMBS[name]
    with pytest.raises(refusal):
        received(iter(messages), 1 << 20)


def test_offsets_that_leave_their_buffer_are_refused() -> None:
    header, batch = _flight(pa.table({"t": ["some text", "more"]}))
    body = bytearray(batch.data_body)
    at = body.index((9).to_bytes(4, "little"))  # the offset where the second text begins
    body[at : at + 4] = (1 << 30).to_bytes(4, "little")
    with pytest.raises(InvalidArgument, match="ffset"):
        received(iter([header, FlightData(data_header=batch.data_header, data_body=bytes(body))]), 1 << 20)
