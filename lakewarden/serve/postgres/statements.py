"""Runs one statement of a connection, or says what its answer will look like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from lakewarden.catalog.model import Table
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.serve.postgres.control import control_of
from lakewarden.serve.postgres.parameter_types import inferred
from lakewarden.serve.postgres.parameters import example
from lakewarden.serve.postgres.pg_catalog.answer import answered, asks_catalog
from lakewarden.serve.postgres.pg_catalog.answer import parameter_kinds as catalog_parameters
from lakewarden.serve.postgres.portals import AnswerColumn, CommandOutcome
from lakewarden.serve.postgres.state import State
from lakewarden.serve.postgres.wire.kinds import JSON, TEXT, Kind, kind_of
from lakewarden.serve.postgres.wire.problems import READ_ONLY, ProtocolError
from lakewarden.sql.blocks.rules import LISTS, changes_nothing, innermost
from lakewarden.sql.grammar.parameters import Value
from lakewarden.sql.parse import Single, parse_unfilled
from lakewarden.sql.results import AffectedRows, Events, Result, ResultRows, StartedJobs, StatementDone
from lakewarden.sql.specs import STATEMENTS
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.rows import Delete, Insert, Merge, Overwrite, Query, Subscribe, Update

_COUNTED = {Insert: "INSERT 0", Overwrite: "INSERT 0", Update: "UPDATE", Delete: "DELETE", Merge: "MERGE"}


def run(state: State, single: Single, values: Sequence[Value]) -> CommandOutcome:
    """Raises:
    LakewardenError, Problem: the statement failed, and with it the block around it.
    """
    try:
        control = control_of(single, state)
        if control is not None:
            return control()
        state.block.check()
        if asks_catalog(single):
            return _selected(answered(state, single, values))
        (statement,) = state.session.parsed(single.text, values)
        return _run(state, statement)
    except (LakewardenError, ProtocolError):
        state.block.fail()
        raise


def _run(state: State, statement: Statement) -> CommandOutcome:
    inner = innermost(statement)
    writes = not changes_nothing(inner)
    if writes and state.variables.read_only and not state.block.open:
        raise ProtocolError(READ_ONLY, "the transaction is read-only, and the statement may change something")
    if isinstance(inner, Subscribe):
        raise Unsupported("SUBSCRIBE has no end, and PostgreSQL's protocol waits for one: send its SELECT")
    state.querying = not writes
    try:
        (result,) = state.session.run([statement], cancellation=state.cancellation)
    finally:
        state.querying = False
    return _outcome(inner, result)


def _outcome(statement: Statement, result: Result) -> CommandOutcome:
    begins = next(iter(STATEMENTS[type(statement)].begins)).upper()
    match result:
        case ResultRows():
            return _selected(result)
        case AffectedRows():
            tag = _COUNTED.get(type(statement))
            return CommandOutcome(begins if tag is None else f"{tag} {result.rows}", notices=result.warnings)
        case StartedJobs():
            return CommandOutcome(begins, notices=(f"{result.message}: {', '.join(result.job_ids)}",))
        case StatementDone():
            return CommandOutcome(begins)
        case Events():
            raise Unsupported("a subscription is no answer of PostgreSQL's protocol")


def _selected(rows: ResultRows) -> CommandOutcome:
    return CommandOutcome(f"SELECT {rows.table.num_rows}", rows)


def columns_of(rows: ResultRows) -> tuple[AnswerColumn, ...]:
    """DuckDB gives JSON that a query made as text, and tells it apart by the name of its type."""
    found = zip(rows.table.schema, rows.types, strict=True)
    return tuple(AnswerColumn(field.name, JSON if name == "JSON" else kind_of(field.type)) for field, name in found)


def described(state: State, single: Single, values: Sequence[Value]) -> tuple[AnswerColumn, ...] | None:
    """The columns of the answer, without a run; None for a statement that has no rows.

    Raises:
        LakewardenError, Problem: the statement is not possible.
    """
    if control_of(single, state) is not None:
        return (AnswerColumn(single.tokens[-1].lower(), TEXT),) if single.tokens[0].upper() == "SHOW" else None
    state.block.check()
    if asks_catalog(single):
        return columns_of(answered(state, single, values))
    (statement,) = state.session.parsed(single.text, values)
    inner = innermost(statement)
    if isinstance(inner, Query):
        rows = state.session.described(statement)
    elif isinstance(inner, LISTS):  # these have no effect and few rows
        (result,) = state.session.run([statement], cancellation=state.cancellation)
        rows = result if isinstance(result, ResultRows) else None
    else:
        return None
    return None if rows is None else columns_of(rows)


def parameter_kinds(state: State, single: Single, declared: Sequence[Kind | None]) -> tuple[Kind, ...]:
    """The types of a statement's parameters: those that the client declared, then what their places say, else text.

    Raises:
        LakewardenError: the text is no statement.
    """
    known: dict[int, Kind] = {}
    if control_of(single, state) is None and asks_catalog(single):
        known = catalog_parameters(single)
    elif control_of(single, state) is None:
        statement = parse_unfilled(single.text)
        if single.parameters and not all(declared[: single.parameters] or [None]):
            known = inferred(statement, _tables_by_name(state))
    given = chain(declared, (None for _ in range(single.parameters)))
    return tuple(kind or known.get(number, TEXT) for number, kind in zip(range(1, single.parameters + 1), given, strict=False))


def _tables_by_name(state: State) -> dict[str, Table]:
    seen = state.session.seen()
    found = {str(table.name).lower(): table for table in seen.tables}
    mine = seen.namespace or ""
    return found | {table.name.name.lower(): table for table in seen.tables if table.name.namespace == mine}


def examples(kinds: Sequence[Kind]) -> list[Value]:
    """Values that a statement is described with before it has its own."""
    return [example(kind) for kind in kinds]
