"""The ON of a MERGE: which value of the source each column of the key is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.reading.bounds import Bound
from lakewarden.errors import Unsupported
from lakewarden.sql.handlers.writing.target import WriteTarget
from lakewarden.sql.statements.rows import Merge
from lakewarden.tables.reading.keys import bound_of


@dataclass(frozen=True)
class KeyPairs:
    """For each column of the key, the expression of the source that ON compares it with."""

    values: Mapping[str, exp.Expr]

    def sets(self, column: str, value: exp.Expr) -> bool:
        """Whether an assignment leaves the key as ON found it."""
        found = next((own for name, own in self.values.items() if name.lower() == column.lower()), None)
        return found is not None and _bare(found) == _bare(value)

    def check_inserted(self, given: Mapping[str, exp.Expr]) -> None:
        """Raises:
        Unsupported: a new row would get another key than the one that was looked up, which may be live.
        """
        for name in self.values:
            if name not in given or not self.sets(name, given[name]):
                raise Unsupported(f"WHEN NOT MATCHED … INSERT has to give {name} the value that ON compares it with: {self}")

    def __str__(self) -> str:
        return " AND ".join(f"{name} = {value.sql('duckdb')}" for name, value in self.values.items())


def key_pairs(statement: Merge, target: WriteTarget, source_columns: Sequence[str]) -> KeyPairs:
    """Raises:
    Unsupported: ON does anything but compare each column of the key with a value of the source.
    """
    schema = target.schema
    names = {(statement.alias or statement.table.name).lower()}
    theirs = {name.lower() for name in source_columns}
    found: dict[str, exp.Expr] = {}
    for part in _parts(statement.on):
        pair = _pair(part, schema, names, theirs)
        if pair is None or pair[0] in found:
            break
        found[pair[0]] = pair[1]
    else:
        if set(found) == set(schema.primary_key):
            return KeyPairs({name: found[name] for name in schema.primary_key})
    key = ", ".join(schema.primary_key)
    raise Unsupported(
        f"MERGE INTO {target.table.name}: ON has to compare each column of the key ({key}) with a value of the source by =, "
        "and nothing else; other conditions belong behind WHEN … AND"
    )


def _parts(on: exp.Expr) -> list[exp.Expr]:
    node = on.unnest()
    return [*_parts(node.this), *_parts(node.expression)] if isinstance(node, exp.And) else [node]


def _pair(part: exp.Expr, schema: TableSchema, names: set[str], theirs: set[str]) -> tuple[str, exp.Expr] | None:
    """The key's column and the source's value of an equation; None if it is no such equation."""
    if not isinstance(part, exp.EQ):
        return None
    for one, other in ((part.this.unnest(), part.expression), (part.expression.unnest(), part.this)):
        column = _key_column(one, schema, names, theirs)
        if column is not None and not any(_is_ours(each, schema, names, theirs) for each in other.find_all(exp.Column)):
            return column, other
    return None


def _key_column(node: exp.Expr, schema: TableSchema, names: set[str], theirs: set[str]) -> str | None:
    if not isinstance(node, exp.Column) or not _is_ours(node, schema, names, theirs):
        return None
    return next((name for name in schema.primary_key if name.lower() == node.name.lower()), None)


def _is_ours(column: exp.Column, schema: TableSchema, names: set[str], theirs: set[str]) -> bool:
    """Whether it is a column of the table that is merged into."""
    if column.table:
        return column.table.lower() in names
    return column.name.lower() in {name.lower() for name in schema.names} - theirs


def _bare(value: exp.Expr) -> exp.Expr:
    """Without the names of tables and the case of columns."""
    made = value.copy().unnest()
    for column in [made] if isinstance(made, exp.Column) else list(made.find_all(exp.Column)):
        column.set("table", None)
        column.set("this", exp.to_identifier(column.name.lower(), quoted=True))
    return made


def bounds_of(keys: KeyPairs, source: pa.Table, schema: TableSchema) -> tuple[Bound, ...]:
    """Where the rows that the source may match are: rows beyond its own keys need not be read."""
    places = {name.lower(): place for place, name in enumerate(source.column_names)}
    found = []
    for name, value in keys.values.items():
        column = schema.column(name)
        if column is not None and isinstance(value, exp.Column) and value.name.lower() in places:
            values = source.column(places[value.name.lower()])
            if pa.types.is_integer(values.type) == pa.types.is_integer(column.type.arrow):  # else DuckDB converts one of them
                found.append(bound_of(name, values))
    return tuple(bound for bound in found if bound is not None)
