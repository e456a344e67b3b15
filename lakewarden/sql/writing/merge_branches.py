"""The branches of a MERGE: for each WHEN the query that finds its rows, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from lakewarden.catalog.model import SchemaColumn, TableSchema
from lakewarden.delta.reading.bounds import Bound, bound_of
from lakewarden.errors import Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.plain_values import is_default
from lakewarden.sql.ref import Ref
from lakewarden.sql.results import ResultRows
from lakewarden.sql.writing.shapes import RowWrite
from lakewarden.sql.writing.target import (
    Assignment,
    WriteTarget,
    assigned_to,
    changed,
    column_of,
    columns_named,
    fitted,
    node_of,
    other_number,
    revision_query,
)


@dataclass(frozen=True)
class When:
    """One WHEN of a MERGE. `columns` get `values`; both are empty for `*`, and for an action that sets nothing."""

    matched: bool
    condition: exp.Expr | None
    action: Literal["update", "delete", "insert", "nothing"]
    columns: tuple[str, ...] = ()
    values: tuple[exp.Expr, ...] = ()
    of: tuple[Ref | None, ...] = ()
    """The table that each column is said to be of, as of Assignment."""


@dataclass(frozen=True)
class MergeClauses(RowWrite):
    """The parts of a MERGE. `source` is sqlglot's node of VALUES, of a query in brackets or of a table; `source_alias` is what ON
    calls it.
    """

    source: exp.Expr
    source_alias: str
    on: exp.Expr
    whens: tuple[When, ...]
    alias: str | None = None


# The ON of a MERGE: which value of the source each column of the key is compared with.
@dataclass(frozen=True)
class KeyPairs:
    """For each column of the key, the expression of the source that ON compares it with."""

    values: Mapping[str, exp.Expr]

    def sets(self, column: str, value: exp.Expr) -> bool:
        """Whether an assignment leaves the key as ON found it."""
        found = next((own for name, own in self.values.items() if name.lower() == column.lower()), None)
        return found is not None and _bare(found) == _bare(value)

    def check_inserted(self, given: Mapping[str, exp.Expr]) -> None:
        """Raises Unsupported: a new row would get another key than the one that was looked up, which may be live."""
        for name in self.values:
            if name not in given or not self.sets(name, given[name]):
                raise Unsupported(f"WHEN NOT MATCHED … INSERT has to give {name} the value that ON compares it with: {self}")

    def __str__(self) -> str:
        return " AND ".join(f"{name} = {value.sql('duckdb')}" for name, value in self.values.items())


def key_pairs(statement: MergeClauses, target: WriteTarget, source_columns: Sequence[str]) -> KeyPairs:
    """Raises Unsupported: ON does anything but compare each column of the key with a value of the source."""
    schema = target.schema
    names = {(statement.known_as).lower()}
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
    """The key's column and the source's value of an equation; None if it is not such an equation."""
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


SOURCE = "rows of the source"
"""The relation of the source's rows; no table can have this name."""


@dataclass(frozen=True)
class UpdateBranch:
    query: exp.Select
    assignments: tuple[Assignment, ...]

    def keys(self, target: WriteTarget, found: ResultRows) -> pa.Table:
        schema = target.schema
        return pa.table({name: found.table.column(schema.names.index(name)) for name in schema.primary_key})

    def rows(self, context: Context, target: WriteTarget, found: ResultRows) -> pa.Table:
        return changed(context, target, found, self.assignments, lambda _: None)


@dataclass(frozen=True)
class DeleteBranch:
    query: exp.Select
    every: bool
    """Whether it takes every row that is matched: then it does not matter how often one is."""

    def keys(self, _: WriteTarget, found: ResultRows) -> pa.Table:
        return found.table


@dataclass(frozen=True)
class InsertBranch:
    query: exp.Select
    columns: tuple[SchemaColumn, ...]

    def rows(self, _: Context, target: WriteTarget, found: ResultRows) -> pa.Table:
        made = zip(self.columns, found.table.columns, found.types, strict=True)
        values = {column.name: fitted(column, values, kind) for column, values, kind in made}
        return target.client.completed(pa.table(values), user=target.user, follows=False)


Branch = UpdateBranch | DeleteBranch | InsertBranch


@dataclass(frozen=True)
class Branches:
    """Builds the branches of one MERGE. Errors are those of `merge`."""

    target: WriteTarget
    statement: MergeClauses
    keys: KeyPairs
    source_columns: Sequence[str]

    def __iter__(self) -> Iterator[Branch]:
        for when, condition in _exclusive(self.statement.whens):
            branch = self._branch(when, condition)
            if branch is not None:
                yield branch

    def _branch(self, when: When, condition: exp.Expr) -> Branch | None:
        match when.action:
            case "update":
                return self._update(when, condition)
            case "delete":
                key = [exp.column(name, self._alias, quoted=True) for name in self.target.schema.primary_key]
                query = exp.select(*key, copy=False).from_(node_of(self.target.table, self._alias), copy=False)
                return DeleteBranch(
                    self._matched(query, condition), every=when is self.statement.whens[0] and when.condition is None
                )
            case "insert":
                return self._insert(when, condition)
            case "nothing":
                return None

    @property
    def _alias(self) -> str:
        return self.statement.known_as

    def _source(self) -> exp.Table:
        return exp.table_(SOURCE, quoted=True, alias=exp.to_identifier(self.statement.source_alias, quoted=True))

    def _matched(self, query: exp.Select, condition: exp.Expr) -> exp.Select:
        return query.join(self._source(), on=self.statement.on.copy(), copy=False).where(condition, copy=False)

    def _update(self, when: When, condition: exp.Expr) -> UpdateBranch | None:
        given = zip(when.columns, when.values, strict=True) if when.columns else self._by_name()
        kept = tuple(Assignment(name, value) for name, value in given if not self.keys.sets(name, value))
        if not kept:  # of the key alone, which stays as ON found it
            return None
        return UpdateBranch(self._matched(revision_query(self.target, kept, self._alias), condition), kept)

    def _by_name(self) -> Iterator[tuple[str, exp.Expr]]:
        """Of `*`: each column of the source for the table's of the same name."""
        for name in self.source_columns:
            yield column_of(self.target.schema, name).name, exp.column(name, self.statement.source_alias, quoted=True)

    def _insert(self, when: When, condition: exp.Expr) -> InsertBranch:
        given = dict(self._by_name()) if not when.values else None
        columns = columns_named(self.target.schema, when.columns if given is None else list(given))
        values = list(when.values) if given is None else list(given.values())
        if len(values) != len(columns):
            raise other_number(len(values), map(attrgetter("name"), columns))
        pairs = list(zip(columns, values, strict=True))
        self.keys.check_inserted({column.name: value for column, value in pairs})
        wanted = [(column, value) for column, value in pairs if not is_default(value)]
        named = [exp.alias_(assigned_to(*pair), f"value {index}", quoted=True) for index, pair in enumerate(wanted)]
        query = exp.select(*named, copy=False).from_(self._source(), copy=False)
        query = query.join(node_of(self.target.table, self._alias), on=self.statement.on.copy(), join_type="anti", copy=False)
        return InsertBranch(query.where(condition, copy=False), tuple(column for column, _ in wanted))


def _exclusive(whens: Sequence[When]) -> Iterator[tuple[When, exp.Expr]]:
    """Each WHEN with its condition, and those of the ones before it excluded: the first that fits a row counts."""
    before: dict[bool, list[exp.Expr]] = {True: [], False: []}
    for when in whens:
        earlier = before[when.matched]
        own = exp.true() if when.condition is None else when.condition.copy()
        yield when, exp.and_(own, *(exp.not_(exp.func("COALESCE", each.copy(), exp.false())) for each in earlier))
        if when.condition is not None:
            earlier.append(when.condition)
