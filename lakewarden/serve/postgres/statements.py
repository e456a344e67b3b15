"""Runs one statement of a connection, or says what its answer will look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from sqlglot import exp

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import Table
from lakewarden.errors import BadSyntax, LakewardenError, Unsupported
from lakewarden.serve.postgres import kinds
from lakewarden.serve.postgres.catalog_answers import answered, asks_catalog
from lakewarden.serve.postgres.catalog_answers import parameter_kinds as catalog_parameters
from lakewarden.serve.postgres.control import CursorDeclaration, control_of, fetched
from lakewarden.serve.postgres.kinds import JSON, TEXT, Kind, kind_of, kind_of_column
from lakewarden.serve.postgres.problems import READ_ONLY, ProtocolError
from lakewarden.serve.postgres.state import AnswerColumn, CommandOutcome, State
from lakewarden.sql.dialect import Value
from lakewarden.sql.parse import Single, parse_unfilled
from lakewarden.sql.queries.literals import COMPARISONS
from lakewarden.sql.ref import Ref
from lakewarden.sql.results import AffectedRows, Events, Result, ResultRows, StartedJobs, StatementDone
from lakewarden.sql.statement import ExecuteAs, Statement, changes_nothing, innermost
from lakewarden.sql.statements.change import Delete, Update
from lakewarden.sql.statements.insert import Insert, Overwrite
from lakewarden.sql.statements.merge import Merge
from lakewarden.sql.statements.query import Explain, Query
from lakewarden.sql.statements.subscribe import Subscribe
from lakewarden.sql.writing.shapes import RowWrite

# The types of parameters that a client left open, from where they stand in the statement.
_COMPARED = (*COMPARISONS, exp.Add, exp.Sub, exp.Mul, exp.Div)
_CAST: Mapping[exp.DType, Kind] = {
    exp.DType.BOOLEAN: kinds.BOOL,
    exp.DType.SMALLINT: kinds.INT2,
    exp.DType.INT: kinds.INT4,
    exp.DType.BIGINT: kinds.INT8,
    exp.DType.FLOAT: kinds.FLOAT4,
    exp.DType.DOUBLE: kinds.FLOAT8,
    exp.DType.DECIMAL: kinds.NUMERIC,
    exp.DType.DATE: kinds.DATE,
    exp.DType.TIMESTAMP: kinds.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: kinds.TIMESTAMPTZ,
    exp.DType.VARBINARY: kinds.BYTEA,
    exp.DType.UUID: kinds.UUID,
    exp.DType.TEXT: kinds.TEXT,
    exp.DType.VARCHAR: kinds.TEXT,
}

Columns = Mapping[str, Kind]
"""By name in lower case; a name that has several types is not among them."""


def inferred(statement: Statement, tables: Mapping[str, Table]) -> dict[int, Kind]:
    """The types of the parameters of which something is known.

    Args:
        tables: those that the session may read, by `namespace.name` and by the name alone in its own, in lower case.
    """
    found: dict[int, Kind] = {}
    match statement:
        case ExecuteAs(statement=inner):
            return inferred(inner, tables)
        case Query(query) | Explain(query):
            _add(found, query, _columns(query, tables))
        case Insert(table, names, rows) if rows is not None:
            target = tables.get(_name(table))
            _add(found, rows, _columns(rows, tables))
            if target is not None:
                _add_values(found, rows, target, names)
        case Update(table=table, assignments=assignments, where=where) if (target := tables.get(_name(table))) is not None:
            columns = _of([target])
            for each in assignments:
                _add_at(found, each.value, columns.get(each.column.lower()))
                _add(found, each.value, columns)
            if where is not None:
                _add(found, where, columns)
        case Delete(table, where) if where is not None and (target := tables.get(_name(table))) is not None:
            _add(found, where, _of([target]))
        case _:
            pass  # takes none, or each is text
    return found


def _name(ref: Ref) -> str:
    return str(ref).lower()


def _columns(query: exp.Expr, tables: Mapping[str, Table]) -> Columns:
    names = (f"{node.db}.{node.name}".lower().lstrip(".") for node in query.find_all(exp.Table))
    return _of([tables[name] for name in names if name in tables])


def _of(tables: list[Table]) -> Columns:
    found: dict[str, Kind] = {}
    several: set[str] = set()
    for table in tables:
        for column in table.schema.columns:
            kind, name = _as_parameter(column.type), column.name.lower()
            if found.setdefault(name, kind) != kind:
                several.add(name)
    return {name: kind for name, kind in found.items() if name not in several}


def _as_parameter(type: ColumnType) -> Kind:
    """A client sends a UUID as such and JSON as text; a number has no bound."""
    if type.name == "DECIMAL":
        return kinds.NUMERIC
    return kinds.UUID if type.name == "UUID" else kinds.TEXT if type.name in ("JSON", "FILE") else kind_of_column(type)


def _add(found: dict[int, Kind], tree: exp.Expr, columns: Columns) -> None:
    for node in tree.find_all(exp.Placeholder):
        _add_at(found, node, _kind_at(node, columns))


def _add_at(found: dict[int, Kind], node: exp.Expr, kind: Kind | None) -> None:
    if isinstance(node, exp.Placeholder) and kind is not None and (number := str(node.this)).isdecimal():
        found.setdefault(int(number), kind)


def _kind_at(node: exp.Expr, columns: Columns) -> Kind | None:
    parent = node.parent
    match parent:
        case exp.Cast():
            return _type_of(parent.to)
        case exp.Limit() | exp.Offset():
            return kinds.INT8
        case exp.Between() | exp.In():
            return _of_column(parent.this, columns)
        case exp.Paren() | exp.Neg():
            return _kind_at(parent, columns)
        case exp.Any() | exp.All() if isinstance(parent.parent, _COMPARED):
            kind = _of_column(parent.parent.this, columns)
            return kind.listed if kind is not None and kind.array else None
        case exp.Tuple():
            return _in_row(parent, node, columns)
        case _ if isinstance(parent, _COMPARED):
            return _of_column(parent.expression if parent.this is node else parent.this, columns)
        case _:
            return None


def _in_row(row: exp.Tuple, node: exp.Expr, columns: Columns) -> Kind | None:
    """Of `(a, b) = ($1, $2)` and `(a, b) IN (($1, $2))`."""
    holder = row.parent
    if not isinstance(holder, (*_COMPARED, exp.In)):
        return None
    beside = holder.expression if holder.this is row else holder.this
    pairs = zip(row.expressions, beside.expressions, strict=False) if isinstance(beside, exp.Tuple) else ()
    return next((_of_column(other, columns) for one, other in pairs if one is node), None)


def _type_of(named: exp.DataType) -> Kind | None:
    if named.this == exp.DType.ARRAY and len(named.expressions) == 1:
        element = _type_of(named.expressions[0])
        return element.listed if element is not None else None
    return _CAST.get(named.this)


def _of_column(node: exp.Expr, columns: Columns) -> Kind | None:
    node = node.unnest()
    if isinstance(node, exp.Literal) and not node.is_string:
        return kinds.NUMERIC if "." in node.name else kinds.INT8
    if isinstance(node, exp.Count):
        return kinds.INT8
    return columns.get(node.name.lower()) if isinstance(node, exp.Column) else None


def _add_values(found: dict[int, Kind], rows: exp.Query, target: Table, names: tuple[str, ...]) -> None:
    """Of VALUES, and of a query's own projections."""
    schema = target.schema
    written = [schema.column(name) for name in names] if names else list(schema.shown)
    for row in _rows(rows):
        for value, column in zip(row, written, strict=False):  # a row of another length is an error when it runs
            if column is not None:
                _add_at(found, value, _as_parameter(column.type))


def _rows(rows: exp.Query) -> Iterator[list[exp.Expr]]:
    values = list(rows.find_all(exp.Values))
    for each in values:
        yield from (row.expressions for row in each.expressions if isinstance(row, exp.Tuple))
    if not values and isinstance(rows, exp.Select):
        yield rows.expressions


_COUNTED = {Insert: "INSERT 0", Overwrite: "INSERT 0", Update: "UPDATE", Delete: "DELETE", Merge: "MERGE"}


def run(state: State, single: Single, values: Sequence[Value]) -> CommandOutcome:
    """Raises:
    LakewardenError, Problem: the statement failed, and with it the block around it.
    """
    try:
        if (cursor := CursorDeclaration.of(single)) is not None:
            return _declared(state, cursor, values)
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


def _declared(state: State, cursor: CursorDeclaration, values: Sequence[Value]) -> CommandOutcome:
    state.block.check()
    cursor.check(state)
    (statement,) = state.session.parsed(cursor.query.text, values)
    if not changes_nothing(statement):
        raise BadSyntax("a cursor is for a query")
    return cursor.open(state, run(state, cursor.query, values), values)


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
    begins = statement.spec.words
    match result:
        case ResultRows():
            return _selected(result)
        case AffectedRows():
            tag = _COUNTED.get(type(statement))
            found = result.rows if result.found is None else result.found  # an ORM takes 0 rows for a row that is gone
            return CommandOutcome(begins if tag is None else f"{tag} {found}", result.returned, result.warnings)
        case StartedJobs():
            return CommandOutcome(begins, notices=(f"{result.message}: {', '.join(result.job_ids)}",))
        case StatementDone():
            return CommandOutcome(begins)
        case Events():
            raise Unsupported("a subscription is not an answer of PostgreSQL's protocol")


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
    if single.tokens[0].upper() == "FETCH":
        return columns_of(fetched(state, single.tokens[1:])[1])
    if control_of(single, state) is not None:
        return (AnswerColumn(single.tokens[-1].lower(), TEXT),) if single.tokens[0].upper() == "SHOW" else None
    state.block.check()
    if asks_catalog(single):
        return columns_of(answered(state, single, values))
    (statement,) = state.session.parsed(single.text, values)
    inner = innermost(statement)
    if isinstance(inner, Query) or (isinstance(inner, RowWrite) and inner.returning):
        rows = state.session.described(statement)
    elif inner.effect == "lists":  # these have no effect and few rows
        (result,) = state.session.run([statement], cancellation=state.cancellation)
        rows = result if isinstance(result, ResultRows) else None
    else:
        return None
    return None if rows is None else columns_of(rows)


def parameter_kinds(state: State, single: Single, declared: Sequence[Kind | None]) -> tuple[Kind, ...]:
    """The types of a statement's parameters: those that the client declared, then what their places say, else text.

    Raises:
        LakewardenError: the text is not a statement.
    """
    if (cursor := CursorDeclaration.of(single)) is not None:
        return parameter_kinds(state, cursor.query, declared)
    known: dict[int, Kind] = {}
    if control_of(single, state) is None and asks_catalog(single):
        known = catalog_parameters(single)
    elif control_of(single, state) is None:
        statement = parse_unfilled(single.text)
        if single.parameters and not all(declared[: single.parameters] or [None]):
            seen = state.session.seen()
            mine = [table for table in seen.tables if table.name.namespace == seen.namespace]
            tables = {str(table.name).lower(): table for table in seen.tables}
            known = inferred(statement, tables | {table.name.name.lower(): table for table in mine})
    given = chain(declared, (None for _ in range(single.parameters)))
    return tuple(kind or known.get(number, TEXT) for number, kind in zip(range(1, single.parameters + 1), given, strict=False))
