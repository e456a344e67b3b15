"""The rows that an INSERT or INSERT OVERWRITE has: those of VALUES, or of a query.

Those of VALUES are evaluated to Python values, each on its own: one query would give a whole column one type. Literals, and
functions of the session and of the time, do not need DuckDB. It computes the other expressions together, as the columns of one
row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter

from sqlglot import exp

from lakewarden.base.json_values import NOT_FINITE
from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.errors import InvalidArgument
from lakewarden.sql.context import Context
from lakewarden.sql.plain_values import (
    cells_of,
    check_literals,
    is_default,
    is_own_function,
    is_plain,
    name_of,
    number_of,
    values_of,
)
from lakewarden.sql.queries import select
from lakewarden.sql.queries.literals import value_of as literal_of
from lakewarden.sql.queries.session_functions import value_of
from lakewarden.sql.query_engine.engine import Limits
from lakewarden.sql.writing.copying import copying_of
from lakewarden.sql.writing.shapes import Form, RowWrite
from lakewarden.sql.writing.target import FLOATING, WriteTarget, columns_named, fitted_rows, floating_kept, other_number
from lakewarden.tables.direct.value import TaskFiles
from lakewarden.tables.rows.intake import RowParts, Rows


@dataclass(frozen=True)
class FileValue:
    """`FILE('name')` as the value of a row of VALUES, counted from 0, at a place in it."""

    row: int
    place: int
    name: str


@dataclass(frozen=True)
class RowSource(RowWrite):
    """`columns` is empty where the text names none, which means all, in order. `rows` is None for DEFAULT VALUES."""

    columns: tuple[str, ...]
    rows: exp.Query | None

    @cached_property
    def values(self) -> exp.Values | None:
        """The VALUES that the rows are; None of a query. Recognized once: each step of an INSERT depends on it."""
        return None if self.rows is None else values_of(self.rows)

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is of VALUES that have no name and no function to check, so that DuckDB computes nothing."""
        values = self.values
        return values is not None and all(map(is_plain, chain.from_iterable(map(cells_of, values.expressions))))

    @property
    def files(self) -> tuple[FileValue, ...]:
        return ()

    @property
    def form(self) -> Form:
        if self.rows is None:
            return "one row"
        if self.values is None:
            return "query"
        return "one row" if len(self.values.expressions) == 1 else "rows"

    @property
    def reads_own_table(self) -> bool:
        return False

    def queries(self) -> Iterator[exp.Expr]:
        if self.rows is not None and not self.is_plain:
            yield self.rows


_AT_ONCE = 500
"""Expressions in one query; DuckDB slows down as it gets wider."""

_WHOLE = 1e20
"""Larger than every whole number of 64 bits."""

_EXACT = 1 << 53
"""Up to here, DOUBLE has every whole number."""

_DEFAULT = object()
_COMPUTED = object()


@dataclass(frozen=True)
class _Own:
    """A function of the session or of the time. All of a statement have the same moment, whoever computes them: so DuckDB does
    if it computes any value.
    """

    name: str


def rows_of_values(context: Context, values: exp.Values, columns: Sequence[SchemaColumn]) -> list[dict[str, object]]:
    """Returns a dict for each row, without its DEFAULTs.

    Raises:
        ConstraintViolation: a number is out of DOUBLE's range.
        InvalidArgument: a row has more or fewer values than there are columns; an expression cannot be computed.
    """
    cells = [*map(cells_of, values.expressions)]
    for row in cells:
        _check_as_many(row, columns)
    found = [[_plain(cell, column) for cell, column in zip(row, columns, strict=True)] for row in cells]
    places = [(y, x) for y, row in enumerate(found) for x, value in enumerate(row) if value is _COMPUTED or type(value) is _Own]
    if places and not any(value is _COMPUTED for row in found for value in row):
        now = context.warehouse.clock()
        found = [[value_of(context, value.name, now) if isinstance(value, _Own) else value for value in row] for row in found]
        places = []
    for start in range(0, len(places), _AT_ONCE):
        part = places[start : start + _AT_ONCE]
        for (y, x), value in zip(part, _computed(context, [cells[y][x] for y, x in part]), strict=True):
            found[y][x] = value
    return [
        {column.name: fitting(column, value) for column, value in zip(columns, row, strict=True) if value is not _DEFAULT}
        for row in found
    ]


def fitting(column: SchemaColumn, value: object) -> object:
    """Converts a number for a column of DOUBLE, as far as any is exact there, and a whole one for a column of whole numbers,
    however it is written; and the texts that answers in JSON have for what is not a number there.
    """
    if column.type.name in FLOATING and isinstance(value, str):
        return NOT_FINITE.get(value, value)
    if column.type.name == "DOUBLE" and value.__class__ in (int, Decimal) and -_EXACT <= value <= _EXACT:
        return float(value)
    whole = column.type.name in ("SMALLINT", "INT", "BIGINT")
    if whole and isinstance(value, (float, Decimal)) and -_WHOLE < value < _WHOLE and value == int(value):
        return int(value)
    return value


def _plain(cell: exp.Expr, column: SchemaColumn) -> object:
    """The value; `_DEFAULT`, an `_Own`, or `_COMPUTED` where DuckDB has to compute it."""
    match cell:
        case exp.Literal():  # most of them, so before the others
            return str(cell.this) if cell.is_string else _number(str(cell.this), column)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(cell.this)
        case exp.Cast():
            found = literal_of(cell, column.type)
            return _COMPUTED if found is None else found
        case _ if is_own_function(cell):
            return _Own(name_of(cell) or "GENERATE_UUID")
        case exp.Neg() if isinstance(cell.this, exp.Literal) and not cell.this.is_string:
            return _number(f"-{cell.this.this}", column)
        case exp.Paren(this=exp.Literal() | exp.Neg() | exp.Null() | exp.Boolean()):  # as a negative parameter
            return _plain(cell.this, column)
        case _:
            check_literals(cell, column.name)
            return _DEFAULT if is_default(cell) else _COMPUTED


def _number(text: str, column: SchemaColumn) -> object:
    try:
        return number_of(text, column.name) if text.isascii() and "_" not in text else _COMPUTED
    except ValueError:
        return _COMPUTED


def _computed(context: Context, cells: Sequence[exp.Expr]) -> list[object]:
    named = [exp.alias_(cell.copy(), f"value {index}", quoted=True) for index, cell in enumerate(cells)]
    found = select.run(context, exp.select(*named, copy=False))
    return [column[0] for column in found.values()]


def copied(context: Context, statement: RowSource, target: WriteTarget) -> TaskFiles | None:
    """The rows of a query that tasks compute and write, where that is possible and worth it."""
    if target.plan.in_log or target.schema.keyed or statement.rows is None:
        return None
    columns = columns_named(target.schema, statement.columns)
    copying = copying_of(context, floating_kept(columns, statement.rows))
    if copying is None:
        return None
    _check_as_many(copying.shape.columns, columns)
    return copying.into(target.client, columns)


def incoming(context: Context, statement: RowSource, schema: TableSchema, limits: Limits | None = None) -> Rows | RowParts:
    """The rows of VALUES or of the query by column name; a DEFAULT is left out of its row.

    Args:
        limits: of the query, if not the usual ones.
    """
    columns = columns_named(schema, statement.columns)
    if statement.rows is None:
        return [{}]
    if statement.values is not None:
        return _with_files(context, statement.files, rows_of_values(context, statement.values, columns), columns)
    found = select.spooled(context, floating_kept(columns, statement.rows), limits)
    _check_as_many(found.columns, columns)
    return found.each(partial(fitted_rows, columns, found.types))


def _check_as_many(found: Sequence[object], columns: Sequence[SchemaColumn]) -> None:
    if len(found) != len(columns):
        raise other_number(len(found), map(attrgetter("name"), columns))


def _with_files(
    context: Context, files: Sequence[FileValue], rows: list[dict[str, object]], columns: Sequence[SchemaColumn]
) -> list[dict[str, object]]:
    for file in files:
        column = columns[file.place]
        if column.type.name != "FILE":
            raise InvalidArgument(f"column {column.name} is of type {column.type} and takes no file: FILE({file.name!r})")
        rows[file.row][column.name] = context.uploads[file.name]
    return rows
