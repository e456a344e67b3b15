"""Statements of a call: what is done at once, and what is left to the ticket that brings the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewarden.base.scope import TableName
from lakewarden.client import Lakehouse
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.flight.calls import FlightCall
from lakewarden.serve.flight.keys import once, rows_of, written
from lakewarden.serve.flight.many_rows import joined
from lakewarden.serve.flight.rows import values_of
from lakewarden.serve.flight.streams import stream_bytes
from lakewarden.serve.flight.tickets import AnswerTicket, Tickets
from lakewarden.serve.flight.tickets import StatementTicket as Text
from lakewarden.serve.idempotency import Writes
from lakewarden.serve.outcomes import places_of
from lakewarden.sql.grammar.parameters import Value
from lakewarden.sql.queries.select import SpooledRows
from lakewarden.sql.results import AffectedRows, Events, Result, ResultRows, StartedJobs, StatementDone
from lakewarden.sql.session import SqlSession
from lakewarden.sql.specs import gives_rows
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.namespaces import UseNamespace
from lakewarden.sql.statements.session import SetFreshness

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
        """Raises:
        InvalidArgument: the text does more than read.
        """
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
    return AnswerStream(first.schema, _chained(first, tables))


def _chained(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest


def _stream(result: Result) -> AnswerStream:
    match result:
        case ResultRows(table):
            return whole(table)
        case AffectedRows():
            return whole(written(rows=result.rows))
        case StatementDone() | StartedJobs():
            return whole(written(message=result.message))
        case Events():
            raise Unsupported("SUBSCRIBE has no end, and this call has one: send its SELECT")
