"""Parses MERGE with sqlglot, and takes the tree apart."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.grammar.rows import assignments_of, only, ref_of
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.rows import Merge, When

_PARTS = frozenset({"this", "using", "on", "using_cond", "whens"})


def merge(read: StatementReader) -> Statement:
    """Reads what follows MERGE."""
    found = read._parse_merge()
    only(read, found, _PARTS, "MERGE")
    table, alias = ref_of(read, found.this), found.this.alias or None
    source = found.args["using"]
    if not isinstance(source, (exp.Values, exp.Subquery, exp.Table)):
        raise read.misread("expected VALUES, a query or a table behind USING")
    name = source.alias_or_name
    if not name:
        raise InvalidArgument(f"MERGE INTO {table}: the source needs a name, as in USING (SELECT …) AS s")
    if name.lower() == (alias or table.name).lower():
        raise InvalidArgument(f"MERGE INTO {table}: the table and the source are both called {name}; give one another name")
    whens = tuple(_when(read, each) for each in found.args["whens"].expressions)
    _check_order(whens)
    return Merge(table, source, name, _on(found, alias or table.name, name), whens, alias)


def _on(found: exp.Expr, target: str, source: str) -> exp.Expr:
    """The condition; of USING (columns) the comparison of each."""
    condition = found.args.get("on")
    if isinstance(condition, exp.Expr):
        return condition
    names = [each.name for each in found.args.get("using_cond") or ()]
    sides = [(exp.column(name, target, quoted=True), exp.column(name, source, quoted=True)) for name in names]
    return exp.and_(*(exp.EQ(this=one, expression=other) for one, other in sides))


def _when(read: StatementReader, found: exp.Expr) -> When:
    if found.args.get("source"):
        raise Unsupported(
            "MERGE … WHEN NOT MATCHED BY SOURCE is not supported; DELETE … WHERE … NOT IN (SELECT …) removes such rows"
        )
    matched, condition, then = bool(found.args["matched"]), found.args.get("condition"), found.args["then"]
    if then is not None and then.args.get("where"):
        raise read.misread(f"a condition stands behind WHEN {'' if matched else 'NOT '}MATCHED AND, not in a WHERE")
    match then:
        case exp.Update() if matched and then.expressions:
            if isinstance(then.expressions[0], exp.Star):
                return When(True, condition, "update")
            given = assignments_of(read, then.expressions)
            columns, values, of = zip(*((each.column, each.value, each.of) for each in given), strict=True)
            return When(True, condition, "update", columns, values, of)
        case exp.Insert() if not matched:
            return _insert(read, condition, then)
        case exp.Var() if matched and then.name.upper() == "DELETE":
            return When(True, condition, "delete")
        case exp.Var() if then.name.upper() == "DO NOTHING":
            return When(matched, condition, "nothing")
    wanted = "UPDATE SET …, DELETE or DO NOTHING" if matched else "INSERT … or DO NOTHING"
    raise read.misread(f"WHEN {'' if matched else 'NOT '}MATCHED … THEN takes {wanted}")


def _insert(read: StatementReader, condition: exp.Expr | None, then: exp.Insert) -> When:
    if isinstance(then.this, exp.Star):
        return When(False, condition, "insert")
    columns = tuple(each.name for each in then.this.expressions) if then.this else ()
    given = then.args.get("expression")
    if not isinstance(given, exp.Tuple):
        raise read.misread("expected INSERT (columns) VALUES (values), or INSERT *")
    if columns and len(columns) != len(given.expressions):
        names = ", ".join(columns)
        raise InvalidArgument(f"{len(given.expressions)} values are given for {len(columns)} columns, which are {names}")
    return When(False, condition, "insert", columns, tuple(given.expressions))


def _check_order(whens: Sequence[When]) -> None:
    """Raises:
    InvalidArgument: a WHEN could never apply, since one before it takes every row.
    """
    taken: set[bool] = set()
    for when in whens:
        if when.matched in taken:
            raise InvalidArgument(
                f"only the last WHEN {'' if when.matched else 'NOT '}MATCHED may have no condition: those behind it never apply"
            )
        if when.condition is None:
            taken.add(when.matched)
