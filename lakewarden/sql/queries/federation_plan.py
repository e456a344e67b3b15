"""A query as two: one for each partition, and one over all their answers.

The second has the first's columns under names of ours: `k0`, … for groups, `p0`, … for aggregates, `c0`, … for values and for
what rows are sorted by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from lakewarden.sql.queries.federation_shape import aggregates, aggregates_rows


# What the names in a query over one table mean: its columns, or what the query itself shows under that name.
class UnclearName(Exception):
    """What a name means is not clear; the message says why."""


class ColumnNames:
    """The names of one table's columns, and of the query's projections."""

    def __init__(self, columns: Sequence[str], alias: str, select: exp.Select) -> None:
        self._columns = {name.lower(): name for name in columns}
        self._alias = alias.lower()
        self._shown = {part.alias.lower(): part.unalias() for part in select.expressions if part.alias}
        self._parts = [part.unalias() for part in select.expressions]

    def plain(self, part: exp.Expr) -> exp.Expr:
        """A projection without its alias; its columns are spelled as the table's.

        Raises:
            UnclearName: a name is neither a column nor alone.
        """
        return self._spelled(part.unalias(), shown=False)

    def resolved(self, part: exp.Expr) -> exp.Expr:
        """The same of a HAVING, where a name that is not a column is a projection's."""
        return self._spelled(part, shown=True)

    def groups(self, select: exp.Select) -> list[exp.Expr]:
        """What the query groups by, each once."""
        group = select.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            found = [self.plain(part) for part in self._parts if next(aggregates(part), None) is None]
        else:
            found = [self._numbered(part) for part in group.expressions]
        return list(dict.fromkeys(found))

    def order(self, select: exp.Select) -> list[exp.Ordered]:
        """What the rows are sorted by; a name is a projection's before it is a column's."""
        clause = select.args.get("order")
        made = []
        for each in () if clause is None else clause.expressions:
            if not isinstance(each, exp.Ordered) or each.args.get("with_fill"):
                raise UnclearName("it sorts in another way than by values")
            own = each.copy()
            own.set("this", self._sorted_by(each.this))
            made.append(own)
        return made

    def _sorted_by(self, part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in self._shown:
            return self.plain(self._shown[part.name.lower()])
        if isinstance(part, exp.Var):
            raise UnclearName("it sorts by all columns")
        if any(column.name.lower() in self._shown for column in part.find_all(exp.Column)) and not isinstance(part, exp.Column):
            raise UnclearName("it sorts by an expression over a name that it shows")
        return self._numbered(part)

    def _numbered(self, part: exp.Expr) -> exp.Expr:
        """`1` is the first projection."""
        if isinstance(part, exp.Literal) and part.is_int:
            place = int(part.this) - 1
            if any(shown.is_star for shown in self._parts) or not 0 <= place < len(self._parts):
                raise UnclearName("a number in GROUP BY or ORDER BY is not that of one column")
            return self.plain(self._parts[place])
        bare = part.name.lower() if isinstance(part, exp.Column) and not part.table else ""
        if bare in self._shown and bare not in self._columns:
            return self.plain(self._shown[bare])
        if isinstance(part, (exp.Literal, exp.Tuple)) or part.is_star:
            raise UnclearName("it groups or sorts by a constant or a list")
        return self.resolved(part)

    def _spelled(self, part: exp.Expr, *, shown: bool) -> exp.Expr:
        made = exp.Paren(this=part.copy())
        for column in list(made.find_all(exp.Column)):
            column.replace(self._meant(column, shown=shown))
        found: exp.Expr = made.this
        return found

    def _meant(self, column: exp.Column, *, shown: bool) -> exp.Expr:
        if isinstance(column.this, exp.Star):
            raise UnclearName("it aggregates all columns")
        if column.table and column.table.lower() != self._alias:
            raise UnclearName(f"{column.table} is not the table")
        name = self._columns.get(column.name.lower())
        if name is not None:
            return exp.column(exp.to_identifier(name, quoted=True))
        if shown and not column.table and column.name.lower() in self._shown:
            return exp.Paren(this=self._spelled(self._shown[column.name.lower()], shown=False))
        raise UnclearName(f"{column.name!r} is not a column of the table")


PARTS = "parts"
"""The relation of the second query."""

_WHOLE = ("HUGEINT", "UHUGEINT")


@dataclass(frozen=True)
class FederatedQueries:
    """The queries. `partial` is for each partition."""

    partial: exp.Select
    columns: tuple[str, ...]
    """The names of its columns, by which `final` knows them."""
    final: Callable[[Sequence[str], Sequence[str]], exp.Select]
    """Takes the types of the first query's columns, and those of the result."""
    aggregate: bool


def split(select: exp.Select, names: ColumnNames) -> FederatedQueries:
    """Raises UnclearName: it is not clear what a name in the query means."""
    return _Groups(select, names).split() if aggregates_rows(select) else _Scan(select, names).split()


@dataclass
class _Scan:
    """Rows are concatenated, sorted and cut again."""

    select: exp.Select
    names: ColumnNames

    def split(self) -> FederatedQueries:
        select = self.select
        order = self.names.order(select)
        partial = select.copy()
        for number, part in enumerate(order):
            partial.append("expressions", exp.alias_(part.this.copy(), f"lakewarden o{number}", quoted=True))
        limit, offset = _number(select, "limit"), _number(select, "offset")
        partial.set("offset", None)
        if limit is not None:
            partial.set("limit", exp.Limit(expression=exp.Literal.number(limit + (offset or 0))))
        else:
            partial.set("order", None)
        return FederatedQueries(partial, (), lambda _types, result: self._final(order, result), aggregate=False)

    def _final(self, order: Sequence[exp.Ordered], result: Sequence[str]) -> exp.Select:
        made = exp.select(*(_cast(exp.column(f"c{number}"), kind) for number, kind in enumerate(result)))
        made = made.from_(exp.to_table(PARTS))
        _sort(made, order, [exp.column(f"c{len(result) + number}") for number in range(len(order))])
        return _cut(made, self.select)


@dataclass
class _Groups:
    """Aggregates of groups are aggregated again."""

    select: exp.Select
    names: ColumnNames
    calls: list[exp.Expr] = field(default_factory=list)
    """The aggregates of the first query, each once."""

    def split(self) -> FederatedQueries:
        select = self.select
        keys = self.names.groups(select)
        having, where = select.args.get("having"), select.args.get("where")
        if where is not None:
            self.names.plain(where.this)  # a name that only the projections explain is lost below
        shown = [self.names.plain(part) for part in select.expressions]
        order = self.names.order(select)
        condition = None if having is None else self.names.resolved(having.this)
        places: dict[exp.Expr, exp.Expr] = {key: exp.column(f"k{number}") for number, key in enumerate(keys)}
        for part in (*shown, *([] if condition is None else [condition]), *(each.this for each in order)):
            for call in aggregates(part):
                places.setdefault(call, self._combined(call))
        partial = exp.Select(expressions=[*(exp.alias_(key.copy(), f"k{number}") for number, key in enumerate(keys))])
        for number, call in enumerate(self.calls):
            partial.append("expressions", exp.alias_(call.copy(), f"p{number}"))
        for clause in ("from_", "where"):
            partial.set(clause, select.args[clause].copy() if select.args.get(clause) else None)
        if keys:
            partial.set("group", exp.Group(expressions=[exp.Literal.number(number + 1) for number in range(len(keys))]))
        columns = (*(f"k{number}" for number in range(len(keys))), *(f"p{number}" for number in range(len(self.calls))))
        for part in (*shown, *([] if condition is None else [condition]), *(each.this for each in order)):
            _replaced(part, places)  # every name has a place, or the query is DuckDB's to refuse
        return FederatedQueries(partial, columns, self._final(columns, keys, shown, condition, order, places), aggregate=True)

    def _final(
        self,
        columns: Sequence[str],
        keys: Sequence[exp.Expr],
        shown: Sequence[exp.Expr],
        condition: exp.Expr | None,
        order: Sequence[exp.Ordered],
        places: Mapping[exp.Expr, exp.Expr],
    ) -> Callable[[Sequence[str], Sequence[str]], exp.Select]:
        def final(types: Sequence[str], result: Sequence[str]) -> exp.Select:
            whole = dict(zip(columns, types, strict=True))
            known = {node: _with_types(place, whole) for node, place in places.items()}
            made = exp.select(*(_cast(_replaced(part, known), kind) for part, kind in zip(shown, result, strict=True)))
            made = made.from_(exp.to_table(PARTS))
            if keys:
                made.set("group", exp.Group(expressions=[exp.column(f"k{number}") for number in range(len(keys))]))
            if condition is not None:
                made.set("having", exp.Having(this=_replaced(condition, known)))
            _sort(made, order, [_replaced(each.this, known) for each in order])
            return _cut(made, self.select)

        return final

    def _combined(self, call: exp.Expr) -> exp.Expr:
        """What the second query computes of the partitions' values of an aggregate."""
        bare = call.this if isinstance(call, exp.Filter) else call
        match bare:
            case exp.Count():
                return exp.cast(exp.func("COALESCE", exp.Sum(this=self._part(call)), exp.Literal.number(0)), "BIGINT")
            case exp.Avg():
                total = self._again(call, exp.Sum(this=bare.this.copy()))
                number = self._again(call, exp.Count(this=bare.this.copy()))
                # what DuckDB's own avg is, digit by digit, of whole numbers and DECIMALs
                return exp.Paren(this=exp.Div(this=exp.cast(exp.Sum(this=total), "DOUBLE"), expression=exp.Sum(this=number)))
            case _:
                return type(bare)(this=self._part(call))

    def _again(self, call: exp.Expr, other: exp.Expr) -> exp.Expr:
        """The partitions' values of another aggregate of the same rows."""
        return self._part(exp.Filter(this=other, expression=call.expression.copy()) if isinstance(call, exp.Filter) else other)

    def _part(self, call: exp.Expr) -> exp.Expr:
        if call not in self.calls:
            self.calls.append(call)
        return exp.column(f"p{self.calls.index(call)}")


def _replaced(part: exp.Expr, places: Mapping[exp.Expr, exp.Expr]) -> exp.Expr:
    """The part with what it takes of groups and aggregates in place of them.

    Raises:
        UnclearName: it names a column that is neither.
    """
    if part in places:
        return places[part].copy()
    if isinstance(part, (exp.Column, exp.Star)):
        raise UnclearName("it names a column outside GROUP BY")
    made = part.copy()
    for name, value in made.args.items():
        if isinstance(value, exp.Expr):
            made.set(name, _replaced(value, places))
        elif isinstance(value, list):
            made.set(name, [_replaced(each, places) if isinstance(each, exp.Expr) else each for each in value])
    return made


def _with_types(place: exp.Expr, whole: Mapping[str, str]) -> exp.Expr:
    """Whole numbers of 128 bits come as DECIMALs from the first query: they are themselves again."""
    made = exp.Paren(this=place.copy())
    for column in list(made.find_all(exp.Column)):
        if whole.get(column.name) in _WHOLE:
            column.replace(_cast(column.copy(), whole[column.name]))
    return made


def _cast(part: exp.Expr, kind: str) -> exp.Expr:
    """To a type by DuckDB's own name of it."""
    return exp.Cast(this=part, to=exp.DataType(this=exp.DType.USERDEFINED, kind=kind))


def _sort(made: exp.Select, order: Sequence[exp.Ordered], by: Sequence[exp.Expr]) -> None:
    if order:
        ordered = []
        for each, key in zip(order, by, strict=True):
            own = each.copy()
            own.set("this", key)
            ordered.append(own)
        made.set("order", exp.Order(expressions=ordered))


def _cut(made: exp.Select, like: exp.Select) -> exp.Select:
    for name in ("limit", "offset"):
        if like.args.get(name):
            made.set(name, like.args[name].copy())
    return made


def _number(select: exp.Select, name: str) -> int | None:
    clause = select.args.get(name)
    return None if clause is None else int(clause.expression.this)
