"""Answers a look-up from the log and Delta, without the engine: no expression of the session is computed.

DuckDB's comparison is the measure. What it might read otherwise than this process (text against a number, `5.0`, a UUID in
capitals, a zone, a number out of range) is a query like any other, and goes to a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.column_values import convert
from lakewarden.catalog.model import SchemaColumn, Table
from lakewarden.delta.reading.bounds import Bound, Value
from lakewarden.delta.reading.keys import rows_with
from lakewarden.sql.context import Context
from lakewarden.sql.queries.answer import AnswerPlan, answer_of
from lakewarden.sql.queries.literals import day_of
from lakewarden.sql.queries.look_up_texts import Constant, LookUp, ShownItem
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


_ByName = Mapping[str, SchemaColumn]
"""The columns of a table by their names in lower case."""


@dataclass(frozen=True)
class _AnswerColumn:
    """A column of the answer: one of the table by its name, or the same value in each row."""

    name: str
    type: str
    """DuckDB's name."""
    source: str | None
    kind: pa.DataType
    value: object = None


@dataclass(frozen=True)
class BoundLookUp:
    """A look-up whose table and columns are known, and whose literals are exactly values of its key."""

    context: Context
    table: Table
    columns: tuple[_AnswerColumn, ...]
    key: tuple[tuple[str, Value], ...]
    answer: AnswerPlan | None

    def rows(self) -> ResultRows | None:
        """Returns None where they are too large for an answer, which the engine reports."""
        from lakewarden.sql.queries.scan import scanned_within  # imports Delta, which a query without tables does not need

        names = [column.source for column in self.columns if column.source is not None]
        wanted = tuple(dict.fromkeys([*names, *dict(self.key)]))
        bounds = tuple([Bound(name, value, value) for name, value in self.key])
        rows = scanned_within(self.context, self.table, wanted, bounds)
        rows = rows_with(rows, dict(self.key))  # those of the log are not within the bounds
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
        made = pa.Table.from_arrays(columns, names=names_apart([each.name for each in self.columns]))
        owned = self.context.owner(self.table) is not None
        found = ResultRows(made, tuple(each.type for each in self.columns), (str(self.table.name),) if owned else ())
        return found if self.answer is None else self.answer.shown(found)


def bound_look_up(context: Context, look_up: LookUp | None) -> BoundLookUp | None:
    """The look-up in this context; None where the engine has to answer it. Rights were checked by `bind`, for this run."""
    if look_up is None:
        return None
    shape, name = look_up.shape, context.named(look_up.shape.table)
    table = context.readable.get(name)
    if name in context.shadowing or name in context.catalog.views or not isinstance(table, Table) or table.schema.append_only:
        return None
    by_name = table.schema.shown_by_name
    columns, key = _columns(table, by_name, look_up), _key(table, by_name, look_up)
    answer = answer_of(context, (Relation(name),))
    fanned_out = answer is not None and context.freshness == "eventual"
    if columns is None or key is None or fanned_out or shape.alias.lower() in by_name:
        return None
    return BoundLookUp(context, table, columns, key, answer)


def _columns(table: Table, by_name: _ByName, look_up: LookUp) -> tuple[_AnswerColumn, ...] | None:
    found: list[_AnswerColumn] = []
    for item in look_up.shape.shown:
        made = list(_shown(table, by_name, look_up, item))
        if not made:
            return None
        found.extend(made)
    return tuple(found)


def _shown(table: Table, by_name: _ByName, look_up: LookUp, item: ShownItem) -> Iterator[_AnswerColumn]:
    """The columns that an item means; none where the engine decides."""
    if item.what is None:
        yield from (_of_table(column) for column in table.schema.shown)
        return
    known = None if item.alias is None else by_name.get(item.alias.lower())
    if isinstance(item.what, Constant):
        made = _constant(item.what, look_up.text(item.what))
        if made is not None and known is None:
            yield made if item.alias is None else replace(made, name=item.alias)
    elif item.what.lower() == SEQ and known is None:
        yield _AnswerColumn(item.alias or SEQ, "BIGINT", SEQ, pa.int64())
    elif (column := by_name.get(item.what.lower())) is not None and known in (None, column):
        made = _of_table(column)  # an alias that is another column's name could be meant elsewhere
        yield made if item.alias is None else replace(made, name=item.alias)


def _of_table(column: SchemaColumn) -> _AnswerColumn:
    kind = column.type
    return _AnswerColumn(column.name, _TYPES.get(kind.name, str(kind)), column.name, kind.arrow)


def _constant(constant: Constant, text: str) -> _AnswerColumn | None:
    """A text, or a whole number as DuckDB would write it: these have its names and types."""
    if constant.is_string:
        quoted = text.replace("'", "''")
        return _AnswerColumn(f"'{quoted}'", "VARCHAR", None, pa.string(), text) if _is_text(text) else None
    if not text.isdecimal() or not text.isascii() or text != str(int(text[:_DIGITS])):
        return None
    small = int(text) < 1 << 31
    return _AnswerColumn(text, "INTEGER" if small else "BIGINT", None, pa.int32() if small else pa.int64(), int(text))


def _key(table: Table, by_name: _ByName, look_up: LookUp) -> tuple[tuple[str, Value], ...] | None:
    """The value of each column of the key; None unless each is compared once, with what is exactly a value of it."""
    columns = [(by_name.get(name.lower()), constant) for name, constant in look_up.shape.key]
    if sorted([column.name for column, _ in columns if column is not None]) != sorted(table.schema.primary_key):
        return None
    found = []
    for column, constant in columns:
        value = None if column is None else exact_value(column.type, look_up.text(constant), is_string=constant.is_string)
        if column is None or value is None:
            return None
        found.append((column.name, value))
    return tuple(found)


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
