"""The messages of a connection behind its beginning: the simple and the extended query protocol."""

from __future__ import annotations

import asyncio
from asyncio import StreamWriter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
from starlette.concurrency import run_in_threadpool

from lakewarden.errors import BadSyntax, Unsupported
from lakewarden.serve.postgres import replies, statements
from lakewarden.serve.postgres.control import status_of
from lakewarden.serve.postgres.kinds import Kind, kind_of
from lakewarden.serve.postgres.messages import Fields, MalformedMessage
from lakewarden.serve.postgres.parameters import examples, given, kind_of_parameter
from lakewarden.serve.postgres.problems import ProtocolError, as_problem
from lakewarden.serve.postgres.state import AnswerColumn, Portal, PreparedStatement, State
from lakewarden.serve.postgres.values import encoded, parts
from lakewarden.serve.postgres.working import Working
from lakewarden.sql.dialect import Value
from lakewarden.sql.parse import Single


# Brings an answer into the columns that were described to the client.
def fitted(table: pa.Table, columns: Sequence[AnswerColumn]) -> pa.Table:
    """A statement is described with values that are not its own, so a number may be narrower in its answer.

    Raises:
        Unsupported: the answer has other columns.
    """
    if table.num_columns != len(columns):
        raise _changed()
    for at, column in enumerate(columns):
        if kind_of(table.field(at).type).oid == column.kind.oid:
            continue
        wanted = column.kind.widest
        try:
            values = table.column(at) if wanted is None else table.column(at).cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _changed() from error
        table = table.set_column(at, column.name, values)
    return table


def _changed() -> Unsupported:
    return Unsupported("the statement answers with other columns than it was described with: prepare it again")


T = TypeVar("T")

_UNBOUND = 0
_IGNORED = (b"d", b"c", b"f")
"""Of a COPY, which no statement begins."""


class Dialogue:
    """`busy`: whether an answer is not at its end."""

    def __init__(self, writer: StreamWriter, state: State, working: Working) -> None:
        self.busy = False
        self._writer = writer
        self._state = state
        self._working = working
        self._skips = False
        """Whether an error ended the extended query, so that all is skipped up to its Sync."""
        self._extended: Mapping[bytes, Callable[[Fields], Awaitable[None]]] = {
            b"P": self._parse,
            b"B": self._bind,
            b"D": self._describe,
            b"E": self._execute,
            b"C": self._forget,
            b"H": self._flush,
        }

    def cancel(self) -> None:
        self._working.cancel()

    async def answer(self, letter: bytes, fields: Fields) -> None:
        """Raises:
        Malformed: it is not a message of the protocol.
        Problem: an error that ends the connection.
        """
        self.busy = True
        try:
            await self._answer(letter, fields)
        except ProtocolError as problem:
            if problem.fatal:
                raise
            self._skips = letter != b"Q"
            self._state.block.fail()
            self._writer.write(replies.error(problem))
            if letter == b"Q":
                self._ready()

    async def _answer(self, letter: bytes, fields: Fields) -> None:
        if letter == b"S":
            self._skips = False
            self._ready()
        elif letter == b"Q":
            await self._query(fields.text())
            self._ready()
        elif letter in self._extended:
            if not self._skips:
                await self._extended[letter](fields)
        elif letter not in _IGNORED:
            raise MalformedMessage(f"there is no message {letter!r}")

    def _ready(self) -> None:
        if not self._state.block.open:
            # they end with their transaction, but for cursors WITH HOLD
            self._state.portals = {name: portal for name, portal in self._state.portals.items() if portal.held}
        self._writer.write(replies.ready(status_of(self._state.block)))
        self.busy = False

    async def _query(self, text: str) -> None:
        singles = await self._working.run(lambda: self._checked(text), "Parse")
        if not singles:
            self._writer.write(replies.NOTHING_SENT)
        for single in singles:
            portal = Portal(single, (), ())
            await self._run_portal(portal)
            await self._send(portal, _UNBOUND, described=False)

    def _checked(self, text: str) -> list[Single]:
        """Nothing of a text runs that has a mistake in one of its statements."""
        singles = self._state.session.singles(text)
        if len(singles) > 1:
            for single in singles:
                statements.parameter_kinds(self._state, single, ())
        return singles

    async def _parse(self, fields: Fields) -> None:
        name, text = fields.text(), fields.text()
        declared = [fields.int32() for _ in range(fields.count())]
        kinds = [kind_of_parameter(oid) if oid else None for oid in declared]
        self._state.keep(name, await self._working.run(lambda: self._prepared(text, kinds), "Parse"))
        self._writer.write(replies.PARSED)

    def _prepared(self, text: str, declared: Sequence[Kind | None]) -> PreparedStatement:
        singles = self._state.session.singles(text)
        if not singles:
            return PreparedStatement(None)
        if len(singles) > 1:
            raise BadSyntax(f"a prepared statement is one statement, and this text has {len(singles)}")
        return PreparedStatement(singles[0], statements.parameter_kinds(self._state, singles[0], declared))

    async def _bind(self, fields: Fields) -> None:
        name, prepared = fields.text(), self._state.statement(fields.text())
        formats = [fields.int16() for _ in range(fields.count())]
        values = [fields.value() for _ in range(fields.count())]
        wanted = [fields.int16() for _ in range(fields.count())]
        if len(values) != len(prepared.kinds) or len(formats) not in (0, 1, len(values)):
            raise MalformedMessage(f"{len(values)} values are bound to {len(prepared.kinds)} parameters")
        found = self._read(prepared, formats, values)
        self._state.open(name, Portal(prepared.single, found, wanted, prepared.columns, len(fields.data)))
        self._writer.write(replies.BOUND)

    def _read(self, prepared: PreparedStatement, formats: Sequence[int], values: Sequence[bytes | None]) -> list[Value]:
        each = formats if len(formats) == len(values) else [*formats, 0][:1] * len(values)
        found = zip(values, prepared.kinds, each, strict=True)
        with as_problem():
            return [given(data, kind, number, binary=bool(form)) for number, (data, kind, form) in enumerate(found, 1)]

    async def _describe(self, fields: Fields) -> None:
        what, name = fields.take(1), fields.text()
        if what == b"S":
            prepared = self._state.statement(name)
            self._writer.write(replies.parameters(prepared.kinds))
            columns = await self._columns(prepared.single, examples(prepared.kinds))
            if columns is not None:
                self._state.prepared[name] = PreparedStatement(prepared.single, prepared.kinds, columns)
            self._tell_columns(columns, [False] * len(columns or ()))
        else:
            portal = self._state.portal(name)
            if portal.columns is None:
                portal.columns = await self._columns(portal.single, portal.values)
            with as_problem():
                self._tell_columns(portal.columns, portal.binary(len(portal.columns or ())))

    async def _columns(self, single: Single | None, values: Sequence[Value]) -> tuple[AnswerColumn, ...] | None:
        if single is None:
            return None
        return await self._working.run(lambda: statements.described(self._state, single, values), "Describe")

    def _tell_columns(self, columns: Sequence[AnswerColumn] | None, binary: Sequence[bool]) -> None:
        if columns is None:
            self._writer.write(replies.NO_DATA)
        else:
            named = ((each.name, each.kind, form) for each, form in zip(columns, binary, strict=True))
            self._writer.write(replies.columns(named))

    async def _execute(self, fields: Fields) -> None:
        portal, most = self._state.portal(fields.text()), fields.int32()
        if portal.single is None:
            self._writer.write(replies.NOTHING_SENT)
            return
        if portal.outcome is None:
            await self._run_portal(portal)
        await self._send(portal, max(most, 0), described=True)

    async def _run_portal(self, portal: Portal) -> None:
        single = portal.single
        assert single is not None, "an empty text is not run"
        self._state.check_room()
        portal.outcome = await self._working.run(lambda: statements.run(self._state, single, portal.values), "Execute")
        for notice in portal.outcome.notices:
            self._writer.write(replies.notice(notice))
        if portal.outcome.changed is not None and self._state.variables.knows(portal.outcome.changed):
            self._writer.write(replies.parameter(portal.outcome.changed, self._state.variables.read(portal.outcome.changed)))

    async def _send(self, portal: Portal, most: int, *, described: bool) -> None:
        """Sends rows, up to `most` of them unless that is 0, and the end, or that there are more."""
        outcome = portal.outcome
        assert outcome is not None, "it ran"
        if outcome.rows is None:
            self._writer.write(replies.complete(outcome.tag))
            return
        with as_problem():
            columns = portal.columns or statements.columns_of(outcome.rows)
            table, binary = fitted(outcome.rows.table, columns), portal.binary(len(columns))
        if not described:
            self._tell_columns(columns, binary)
        chosen = table.slice(portal.sent, most or None)
        for part in parts(chosen):
            with as_problem():
                lines = await run_in_threadpool(encoded, part, [column.kind for column in columns], binary)
            self._writer.write(lines)
            async with asyncio.timeout(self._working.seconds):
                await self._writer.drain()
        portal.sent += chosen.num_rows
        if portal.sent < table.num_rows:
            self._writer.write(replies.SUSPENDED)
            return
        portal.finish()
        tag = f"SELECT {chosen.num_rows}" if outcome.tag.startswith("SELECT ") else outcome.tag
        self._writer.write(replies.complete(tag))

    async def _forget(self, fields: Fields) -> None:
        what, name = fields.take(1), fields.text()
        if what == b"S":
            self._state.forget(name)
        else:
            self._state.portals.pop(name, None)
        self._writer.write(replies.CLOSED)

    async def _flush(self, _: Fields) -> None:
        await self._writer.drain()
