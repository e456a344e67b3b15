"""Statements of a call: what is done at once, and what is left to the ticket that brings the rows."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain

import msgspec
import pyarrow as pa
from sqlglot import exp

from lakewarden.base.arrays import stream_bytes
from lakewarden.base.scope import TableName
from lakewarden.client import Lakehouse
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.flight.calls import FlightCall
from lakewarden.serve.flight.rows import values_of
from lakewarden.serve.flight.tickets import AnswerTicket, Tickets
from lakewarden.serve.flight.tickets import StatementTicket as Text
from lakewarden.serve.idempotency import KeyedRequest, Places, StoredAnswer, Writes, places_of
from lakewarden.sql.dialect import Value
from lakewarden.sql.queries.select import SpooledRows
from lakewarden.sql.results import AffectedRows, Events, Result, ResultRows, StartedJobs, StatementDone
from lakewarden.sql.session import SqlSession
from lakewarden.sql.statement import Statement, gives_rows
from lakewarden.sql.statements.insert import Insert
from lakewarden.sql.statements.namespaces import UseNamespace
from lakewarden.sql.statements.session import SetFreshness


# A statement that is sent with many rows of parameters, as few statements: one INSERT is one write, many are many.
def joined(statements: Sequence[Statement]) -> list[Statement]:
    """The same statements; those that insert VALUES into one table in one way are one, with the rows of all."""
    inserts = [one for one in statements if isinstance(one, Insert)]
    values = [one.values for one in inserts if one.values is not None]
    if len(values) < max(2, len(statements)):
        return list(statements)
    first = inserts[0]
    if any(replace(one, rows=None) != replace(first, rows=None) for one in inserts) or first.files:
        return list(statements)
    rows = [row.copy() for each in values for row in each.expressions]
    return [replace(first, rows=exp.select("*").from_(exp.Values(expressions=rows), copy=False))]


# Writes under the header `idempotency-key`, as HTTP has it: one that is sent again is answered, and not done again.
_COLUMNS: Mapping[str, pa.DataType] = {"rows_affected": pa.int64(), "message": pa.string()}
WRITTEN = pa.schema(_COLUMNS)
"""Of the answer of a statement that has no rows: one of the two, the other is NULL."""


def once(
    writes: Writes,
    call: FlightCall,
    asked: msgspec.Struct,
    write: Callable[[], pa.Table],
    places: Places,
    rows: pa.Table | None = None,
) -> pa.Table:
    """The answer of a write. That of a query behind it has no rows the second time: columns' values are not kept.

    Args:
        asked: what is to be done, with `rows`: another request under the same key is refused.

    Raises:
        InvalidArgument, Conflict: as `Writes.once`.
    """
    if call.key is None:
        return write()

    def done() -> StoredAnswer:
        answer = write()
        kept = answer if answer.schema == WRITTEN else answer.slice(0, 0)
        return StoredAnswer(_text(answer), _text(kept))

    parts = (b"flight", call.namespace or "", asked, b"" if rows is None else _digest(rows))
    request = KeyedRequest(msgspec.msgpack.encode(parts), places, lambda outcome: _text(written(rows=outcome.rows)))
    found = writes.once(call.principal.user, call.key, request, done)
    return pa.ipc.open_stream(base64.b64decode(found)).read_all()


def written(*, rows: int | None = None, message: str | None = None) -> pa.Table:
    return pa.Table.from_pylist([{"rows_affected": rows, "message": message}], WRITTEN)


def rows_of(answer: pa.Table) -> int:
    found = answer["rows_affected"][0].as_py()
    assert isinstance(found, int), "the answer of a statement that changes rows"
    return found


def _text(table: pa.Table) -> bytes:
    return base64.b64encode(stream_bytes(table))


class _Hashed:
    """A file that keeps a digest alone."""

    closed = False

    def __init__(self) -> None:
        self.made = sha256()

    def write(self, data: bytes) -> int:
        self.made.update(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""


def _digest(rows: pa.Table) -> bytes:
    sink = _Hashed()
    with pa.ipc.new_stream(sink, rows.schema) as writer:  # type: ignore[arg-type]  # any object with `write` does
        writer.write_table(rows)
    return sink.made.digest()


_MEMORY_BYTES = 32 << 20
"""Of a result; the rest of it is in a temporary file while it is fetched."""


@dataclass(frozen=True)
class AnswerStream:
    schema: pa.Schema
    tables: Iterator[pa.Table]


@dataclass(frozen=True)
class FlightStatements:
    """A query is run by who brings its ticket, as often as it comes; anything else runs at once, and its ticket is its answer."""

    lake: Lakehouse
    tickets: Tickets
    writes: Writes

    def ticket(self, call: FlightCall, text: Text) -> bytes:
        session, statements = self._parsed(call, text)
        if _only_reads(statements):
            return self.tickets.sign(text, call.principal)

        def run() -> pa.Table:
            result = session.run(statements, freshness=call.freshness, cancellation=call.cancellation)[-1]
            return pa.concat_tables(_stream(result).tables)

        return self.tickets.sign(
            AnswerTicket(stream_bytes(once(self.writes, call, text, run, lambda: places_of(statements, call.namespace)))),
            call.principal,
        )

    def schema(self, call: FlightCall, text: Text) -> pa.Schema:
        """The columns of a query. It does not run; a list, as of SHOW TABLES, does: it has no effect and few rows.

        Raises:
            InvalidArgument: the text is more than one query.
        """
        session, statements = self._parsed(call, text)
        if len(statements) > 1 or not _only_reads(statements):
            raise InvalidArgument("the columns of one query are known before it runs: this text is not one query")
        found = session.described(statements[0])
        if found is not None:
            return found.table.schema
        return _stream(session.run(statements, freshness=call.freshness, cancellation=call.cancellation)[-1]).schema

    def rows(self, call: FlightCall, text: Text) -> AnswerStream:
        """Raises InvalidArgument: the text does more than read."""
        session, statements = self._parsed(call, text)
        if not _only_reads(statements):
            raise InvalidArgument("a ticket brings the rows of a query: this text writes")
        found = session.streamed(statements, freshness=call.freshness, cancellation=call.cancellation, memory_bytes=_MEMORY_BYTES)
        return _spooled(found) if isinstance(found, SpooledRows) else _stream(found)

    def update(self, call: FlightCall, text: str, parameters: pa.Table | None = None) -> int:
        """How many rows the statements changed; -1 if none of them changes rows.

        Args:
            parameters: a row for each time that the text is to run. INSERT of VALUES runs once, with all rows.
        """
        values = [()] if parameters is None else values_of(parameters)

        def places() -> list[TableName | None]:
            return places_of(self._joined(call, text, values)[1], call.namespace)

        answer = once(self.writes, call, Text(text), lambda: written(rows=self._updated(call, text, values)), places, parameters)
        return rows_of(answer)

    def _joined(
        self, call: FlightCall, text: str, parameters: Sequence[Sequence[Value]]
    ) -> tuple[SqlSession, Sequence[Statement]]:
        session = self._session(call)
        most = self.lake.warehouse.settings.sql.text_statements
        if len(parameters) > most:
            raise InvalidArgument(
                f"{len(parameters):,} rows of parameters, of which {most:,} are allowed (sql.text_statements): send many rows"
                " by bulk ingest"
            )
        statements = joined([one for values in parameters for one in _given(session, text, values)])
        return session, statements

    def _updated(self, call: FlightCall, text: str, parameters: Sequence[Sequence[Value]]) -> int:
        session, statements = self._joined(call, text, parameters)
        results = session.run(statements, freshness=call.freshness, cancellation=call.cancellation)
        changed = [result.rows for result in results if isinstance(result, AffectedRows)]
        return sum(changed) if changed else -1

    def _session(self, call: FlightCall) -> SqlSession:
        return self.lake.sessions.served(call.principal, call.namespace)

    def _parsed(self, call: FlightCall, text: Text) -> tuple[SqlSession, list[Statement]]:
        session = self._session(call)
        values = values_of(pa.ipc.open_stream(text.parameters).read_all()) if text.parameters else [()]
        return session, _given(session, text.text, values[0])


def _given(session: SqlSession, text: str, values: Sequence[Value]) -> list[Statement]:
    statements = session.parsed(text, values)
    if not statements:
        raise InvalidArgument("the text has no statement")
    return statements


def answered(answer: AnswerTicket) -> AnswerStream:
    return whole(pa.ipc.open_stream(answer.rows).read_all())


def whole(table: pa.Table) -> AnswerStream:
    return AnswerStream(table.schema, iter([table]))


def _only_reads(statements: Sequence[Statement]) -> bool:
    """Whether the text may run again: it ends with rows, and has no more before them than what chooses how they are read.

    Raises:
        InvalidArgument: it has several queries, and a call has one result.
    """
    *before, last = statements
    if not gives_rows(last):
        return False
    if any(gives_rows(one) for one in before):
        raise InvalidArgument("a call has one result: send one query at a time")
    return all(isinstance(one, (UseNamespace, SetFreshness)) for one in before)


def _spooled(found: SpooledRows) -> AnswerStream:
    if isinstance(found.rows, pa.Table):
        return whole(found.rows)
    tables = found.rows.tables()
    first = next(tables)
    return AnswerStream(first.schema, chain([first], tables))


def _stream(result: Result) -> AnswerStream:
    match result:
        case ResultRows(table):
            return whole(table)
        case AffectedRows():
            return whole(written(rows=result.rows) if result.returned is None else result.returned.table)
        case StatementDone() | StartedJobs():
            return whole(written(message=result.message))
        case Events():
            raise Unsupported("SUBSCRIBE has no end, and this call has one: send its SELECT")
