"""The columns of a query before it runs, by Arrow's own client of Flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from pyarrow import flight as arrow_flight

from lakewarden.serve.flight.messages import packed
from lakewarden.serve.flight.messages_pb2 import CommandGetTableTypes, CommandStatementQuery

pytestmark = pytest.mark.xdist_group("flight")


@pytest.fixture
def client(flight: str) -> Iterator[arrow_flight.FlightClient]:
    with arrow_flight.connect(flight) as made:
        yield made


@pytest.fixture
def options(tokens: Callable[[str], str]) -> arrow_flight.FlightCallOptions:
    header = (b"authorization", f"Bearer {tokens('ann')}".encode())
    return arrow_flight.FlightCallOptions(headers=[header])  # type: ignore[list-item]  # the stub says str, the client takes bytes


def described(client: arrow_flight.FlightClient, options: arrow_flight.FlightCallOptions, command: Message) -> pa.Schema:
    found = client.get_schema(arrow_flight.FlightDescriptor.for_command(packed(command)), options)
    schema: pa.Schema = found.schema  # type: ignore[attr-defined]  # the stub names another class than the client returns
    return schema


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM app.notes",
        "SELECT id + 1 AS next, upper(body), count(*) OVER () AS n FROM app.notes",
        "SELECT 1.5::DECIMAL(9,2) AS d, DATE '2026-01-01' AS day, [1, 2] AS l, {'a': 'x'} AS s, NULL AS nothing",
        "SELECT now() AS t, '\\x00'::BLOB AS b, '{}'::JSON AS j",
        "SHOW TABLES IN app",
    ],
)
def test_it_has_the_columns_that_the_answer_has(
    client: arrow_flight.FlightClient, options: arrow_flight.FlightCallOptions, query: str
) -> None:
    command = CommandStatementQuery(query=query)
    info = client.get_flight_info(arrow_flight.FlightDescriptor.for_command(packed(command)), options)
    answer = client.do_get(info.endpoints[0].ticket, options).read_all()
    assert described(client, options, command) == answer.schema


def test_a_list_of_the_protocol_has_its_columns(
    client: arrow_flight.FlightClient, options: arrow_flight.FlightCallOptions
) -> None:
    assert described(client, options, CommandGetTableTypes()).names == ["table_type"]


@pytest.mark.parametrize("text", ["INSERT INTO app.notes VALUES (77, 'a')", "SELECT 1; SELECT 2"])
def test_what_is_not_one_query_is_refused_and_not_run(
    client: arrow_flight.FlightClient, options: arrow_flight.FlightCallOptions, text: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match="INVALID_ARGUMENT"):
        described(client, options, CommandStatementQuery(query=text))
    query = CommandStatementQuery(query="SELECT id FROM app.notes WHERE id = 77")
    info = client.get_flight_info(arrow_flight.FlightDescriptor.for_command(packed(query)), options)
    assert client.do_get(info.endpoints[0].ticket, options).read_all().num_rows == 0


def test_a_table_of_others_is_not_described(client: arrow_flight.FlightClient, options: arrow_flight.FlightCallOptions) -> None:
    with pytest.raises(OSError, match="PERMISSION_DENIED"):
        described(client, options, CommandStatementQuery(query="SELECT * FROM system.users"))
