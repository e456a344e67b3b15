"""What the names in a query over one table mean: its columns, or what the query itself shows under that name."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


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
        """The same of a HAVING, where a name that is no column is a projection's."""
        return self._spelled(part, shown=True)

    def groups(self, select: exp.Select) -> list[exp.Expr]:
        """What the query groups by, each once."""
        group = select.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            from lakewarden.sql.queries.federation.shape import aggregates

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
        raise UnclearName(f"{column.name!r} is no column of the table")
