"""Answers a look-up from the log and Delta, without the engine: no expression of the session is computed.

DuckDB's comparison is the measure. What it might read otherwise than this process (text against a number, `5.0`, a UUID in
capitals, a zone, a number out of range) is a query like any other, and goes to a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import convert
from lakewarden.catalog.model import SchemaColumn, Table, TableSchema
from lakewarden.delta.reading.bounds import Bound, Value
from lakewarden.delta.reading.keys import rows_with
from lakewarden.sql.context import Context
from lakewarden.sql.queries.answer import AnswerPlan, answer_of
from lakewarden.sql.queries.literals import day_of
from lakewarden.sql.queries.look_up_texts import Constant, LookUp, LookUpShape, ShownItem
from lakewarden.sql.relations import SEQ, Relation
from lakewarden.sql.results import ResultRows, names_apart

_WHOLE = {"SMALLINT": 15, "INT": 31, "BIGINT": 63}
"""Types of whole numbers, and their bits without the sign."""

_DIGITS = 18
"""Of a literal: as many are within 64 bits."""

_TYPES = {
    "INT": "INTEGER",
    "TEXT": "VARCHAR",
    "UUID": "VARCHAR",
    "BYTES": "BLOB",
    "TIMESTAMP": "TIMESTAMP WITH TIME ZONE",
    "TIME": "BIGINT",
    "FILE": "JSON",
}
"""DuckDB's names of the types that columns are kept in, where they are not our own."""


@dataclass(frozen=True)
class _AnswerColumn:
    """A column of the answer: one of the table by its name, or the same value in each row."""

    name: str
    type: str
    """DuckDB's name."""
    source: str | None
    kind: pa.DataType
    value: object = None


_NAME, _TYPE, _SOURCE = attrgetter("name"), attrgetter("type"), attrgetter("source")  # a comprehension is a call of its own


_ShownConstant = tuple[Constant, str | None]
"""One that is shown, and the name that the text gives it."""


@dataclass(frozen=True)
class _LookUpPlan:
    """What a shape means in a version of a table's columns: names and types, which are the same for all literals."""

    columns: tuple[_AnswerColumn | _ShownConstant, ...]
    key: tuple[tuple[SchemaColumn, Constant], ...]


@dataclass(frozen=True)
class BoundLookUp:
    """A look-up whose table and columns are known, and whose literals are exactly values of its key."""

    context: Context
    table: Table
    columns: tuple[_AnswerColumn, ...]
    key: Mapping[str, Value]
    answer: AnswerPlan | None

    def rows(self) -> ResultRows | None:
        """Returns None where they are too large for an answer, which the engine reports."""
        from lakewarden.sql.queries.scan import scanned  # imports Delta, which a query without tables does not need
        from lakewarden.tables.strong_read import ReadSelection

        names = filter(None, map(_SOURCE, self.columns))
        bounds = tuple(map(Bound, self.key, self.key.values(), self.key.values()))
        wanted = ReadSelection(tuple(dict.fromkeys([*names, *self.key])), bounds)
        # right behind the statement's look at the catalog; rows of the log are not within the bounds
        rows = rows_with(scanned(self.context, self.table, wanted, self.context.catalog), self.key)
        self.context.cancellation.check()
        most = self.context.warehouse.settings.sql.result_bytes
        # The bytes of whole buffers, which cost less to count, are as many or more.
        return None if rows.get_total_buffer_size() > most and rows.nbytes > most else self._answered(rows)

    def described(self) -> ResultRows:
        """The columns, without rows."""
        return self._answered(pa.schema([(each.source, each.kind) for each in self.columns if each.source]).empty_table())

    def _answered(self, rows: pa.Table) -> ResultRows:
        columns = [
            pa.array([each.value] * rows.num_rows, each.kind) if each.source is None else rows.column(each.source)
            for each in self.columns
        ]
        made = pa.Table.from_arrays(columns, names=names_apart([*map(_NAME, self.columns)]))
        one_users = () if self.table.type == "SHARED" else (str(self.table.name),)
        found = ResultRows(made, tuple(map(_TYPE, self.columns)), one_users)
        return found if self.answer is None else self.answer.shown(found)


def bound_look_up(context: Context, look_up: LookUp | None) -> BoundLookUp | None:
    """The look-up in this context; None where the engine has to answer it. Rights were checked by `bind`, for this run."""
    if look_up is None:
        return None
    name = context.named(look_up.shape.table)
    table = context.readable.get(name)
    if name in context.shadowing or name in context.catalog.views or not isinstance(table, Table):
        return None
    plan, answer = _plan(table.schema, look_up.shape), answer_of(context, (Relation(name),))
    fanned_out = answer is not None and context.freshness == "eventual"
    if plan is None or fanned_out:
        return None
    made = [each if isinstance(each, _AnswerColumn) else _constant(*each, look_up) for each in plan.columns]
    columns = tuple(filter(None, made))
    key = {
        column.name: value
        for column, constant in plan.key
        if (value := exact_value(column.type, look_up.text(constant), is_string=constant.is_string)) is not None
    }
    if len(columns) < len(plan.columns) or len(key) < len(plan.key):
        return None
    return BoundLookUp(context, table, columns, key, answer)


@lru_cache(maxsize=1024)
def _plan(schema: TableSchema, shape: LookUpShape) -> _LookUpPlan | None:
    """None where the engine decides, and unless each column of the key is compared once."""
    by_name = {column.name.lower(): column for column in schema.shown}
    shown = [_shown(by_name, item) for item in shape.shown]
    key = [(by_name[name.lower()], constant) for name, constant in shape.key if name.lower() in by_name]
    is_key = len(key) == len(shape.key) and sorted([column.name for column, _ in key]) == sorted(schema.primary_key)
    if schema.append_only or shape.alias.lower() in by_name or not is_key or not all(shown):
        return None
    return _LookUpPlan(tuple(chain.from_iterable(shown)), tuple(key))


def _shown(by_name: Mapping[str, SchemaColumn], item: ShownItem) -> Sequence[_AnswerColumn | _ShownConstant]:
    """What an item means; nothing where the engine decides."""
    if item.what is None:
        return [_of_table(column, None) for column in by_name.values()]
    known = None if item.alias is None else by_name.get(item.alias.lower())
    if isinstance(item.what, Constant):
        return [(item.what, item.alias)] if known is None else []
    if item.what.lower() == SEQ and known is None:
        return [_AnswerColumn(item.alias or SEQ, "BIGINT", SEQ, pa.int64())]
    column = by_name.get(item.what.lower())
    # an alias that is another column's name could be meant elsewhere
    return [] if column is None or known not in (None, column) else [_of_table(column, item.alias)]


def _of_table(column: SchemaColumn, alias: str | None) -> _AnswerColumn:
    kind = column.type
    return _AnswerColumn(column.name if alias is None else alias, _TYPES.get(kind.name, str(kind)), column.name, kind.arrow)


def _constant(constant: Constant, alias: str | None, look_up: LookUp) -> _AnswerColumn | None:
    """A text, or a whole number as DuckDB would write it: these have its names and types."""
    text = look_up.text(constant)
    if constant.is_string:
        quoted = "'{}'".format(text.replace("'", "''"))
        name = quoted if alias is None else alias
        return _AnswerColumn(name, "VARCHAR", None, pa.string(), text) if _is_text(text) else None
    if not text.isdecimal() or not text.isascii() or text != str(int(text[:_DIGITS])):
        return None
    type_, kind = ("INTEGER", pa.int32()) if int(text) < 1 << 31 else ("BIGINT", pa.int64())
    return _AnswerColumn(text if alias is None else alias, type_, None, kind, int(text))


def exact_value(kind: ColumnType, text: str, *, is_string: bool) -> Value | None:
    """The value of a literal, as an INSERT would keep it, where DuckDB compares it with a column of this type by just this value;
    else None.
    """
    if kind.name in _WHOLE:
        digits = text.removeprefix("-")
        if is_string or not digits.isascii() or not digits.isdecimal() or len(digits) > _DIGITS:
            return None
        value, end = int(text), 1 << _WHOLE[kind.name]
        return value if -end <= value < end else None
    if not is_string or not _is_text(text):
        return None
    match kind.name:
        case "TEXT":
            return text
        case "UUID":
            return text if _as_kept(kind, text) else None
        case "DATE":
            return day_of(text)
        case _:
            return None


def _as_kept(kind: ColumnType, text: str) -> bool:
    try:
        return convert(kind, text) == text
    except ValueError:
        return False


def _is_text(text: str) -> bool:
    """Whether a column can hold it: DuckDB's texts end at a NUL, and half of a surrogate pair is no character."""
    return "\0" not in text and text.encode(errors="replace").decode() == text
