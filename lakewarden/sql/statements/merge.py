"""MERGE: the source's rows are computed once, joined to the live rows by key, and written in one call of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from sqlglot import exp

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.queries import select
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Ref
from lakewarden.sql.relations import ShortNames
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.rights import Requirement, table_right
from lakewarden.sql.statement import Grammar, Statement, StatementSpec, computed, registered
from lakewarden.sql.statements.clauses import assignments_of, only, ref_of
from lakewarden.sql.writing.merge_branches import SOURCE, Branches, MergeClauses, When, bounds_of, key_pairs
from lakewarden.sql.writing.merging import Merging, merge_parts
from lakewarden.sql.writing.shapes import Form, Verb
from lakewarden.sql.writing.target import of_shares, other_number, reads_itself, target_of
from lakewarden.tables.rows.intake import RowParts
from lakewarden.tables.strong_read import EVERYTHING, ReadSelection


@dataclass(frozen=True)
class Merge(MergeClauses):
    verb: ClassVar[Verb] = "MERGE"

    @property
    def form(self) -> Form:
        named = isinstance(self.source, exp.Table) and isinstance(self.source.this, exp.Identifier)
        return "rows" if isinstance(self.source, exp.Values) else "table" if named else "query"

    def sets(self) -> Iterator[Ref | None]:
        yield from (ref for when in self.whens for ref in when.of)

    def queries(self) -> Iterator[exp.Expr]:
        yield exp.select("*").from_(self.source.copy(), copy=False)
        yield from computed(self.on, *(value for when in self.whens for value in (when.condition, *when.values)))


_MERGE_PARTS = frozenset({"this", "using", "on", "using_cond", "whens"})


def read_merge(read: StatementReader) -> Statement:
    """Reads what follows MERGE."""
    found = read._parse_merge()
    only(read, found, _MERGE_PARTS, "MERGE")
    table, alias = ref_of(read, found.this), found.this.alias or None
    source = found.args["using"]
    if not isinstance(source, (exp.Values, exp.Subquery, exp.Table)):
        raise read.misread("expected VALUES, a query or a table behind USING")
    name = source.alias_or_name
    if not name:
        raise InvalidArgument(f"MERGE INTO {table}: the source needs a name, as in USING (SELECT …) AS s")
    if name.lower() == (alias or table.name).lower():
        raise InvalidArgument(f"MERGE INTO {table}: the table and the source are both called {name}; give one another name")
    whens = tuple(_read_when(read, each) for each in found.args["whens"].expressions)
    _check_order(whens)
    return Merge(table, source, name, _read_on(found, alias or table.name, name), whens, alias)


def _read_on(found: exp.Expr, target: str, source: str) -> exp.Expr:
    """The condition; of USING (columns) the comparison of each."""
    condition = found.args.get("on")
    if isinstance(condition, exp.Expr):
        return condition
    names = [each.name for each in found.args.get("using_cond") or ()]
    sides = [(exp.column(name, target, quoted=True), exp.column(name, source, quoted=True)) for name in names]
    return exp.and_(*(exp.EQ(this=one, expression=other) for one, other in sides))


def _read_when(read: StatementReader, found: exp.Expr) -> When:
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
            return _read_insert(read, condition, then)
        case exp.Var() if matched and then.name.upper() == "DELETE":
            return When(True, condition, "delete")
        case exp.Var() if then.name.upper() == "DO NOTHING":
            return When(matched, condition, "nothing")
    wanted = "UPDATE SET …, DELETE or DO NOTHING" if matched else "INSERT … or DO NOTHING"
    raise read.misread(f"WHEN {'' if matched else 'NOT '}MATCHED … THEN takes {wanted}")


def _read_insert(read: StatementReader, condition: exp.Expr | None, then: exp.Insert) -> When:
    if isinstance(then.this, exp.Star):
        return When(False, condition, "insert")
    columns = tuple(each.name for each in then.this.expressions) if then.this else ()
    given = then.args.get("expression")
    if not isinstance(given, exp.Tuple):
        raise read.misread("expected INSERT (columns) VALUES (values), or INSERT *")
    if columns and len(columns) != len(given.expressions):
        raise other_number(len(given.expressions), columns)
    return When(False, condition, "insert", columns, tuple(given.expressions))


def _check_order(whens: Sequence[When]) -> None:
    """Raises InvalidArgument: a WHEN could never apply, since one before it takes every row."""
    taken: set[bool] = set()
    for when in whens:
        if when.matched in taken:
            raise InvalidArgument(
                f"only the last WHEN {'' if when.matched else 'NOT '}MATCHED may have no condition: those behind it never apply"
            )
        if when.condition is None:
            taken.add(when.matched)


# The columns of a MERGE that name the table of its source with a namespace, as in `chat.users.id`.
def naming_source_shortly(context: Context, statement: Merge) -> Merge:
    """The statement with the name for its source that the relation of the source's rows has in queries."""
    source = statement.source
    if not isinstance(source, exp.Table) or source.alias:
        return statement
    namespace = context.named(Ref(source.name, source.db or None)).namespace
    node = exp.table_(source.name, namespace, quoted=True)
    parts = [statement.on, *(each for when in statement.whens for each in _parts(when))]
    tree = exp.select(*(part.copy() for part in parts), copy=False).from_(node, copy=False)
    ShortNames(tree, {id(node): Ref(source.name, namespace)}).give(node)
    on, *others = tree.expressions
    left = iter(others)
    return replace(statement, on=on, source_alias=node.alias, whens=tuple(_with(when, left) for when in statement.whens))


def _parts(when: When) -> Iterator[exp.Expr]:
    yield from () if when.condition is None else (when.condition,)
    yield from when.values


def _with(when: When, parts: Iterator[exp.Expr]) -> When:
    """The same WHEN with these parts instead of its own."""
    condition = None if when.condition is None else next(parts)
    return replace(when, condition=condition, values=tuple(next(parts) for _ in when.values))


def merge(context: Context, statement: Merge) -> AffectedRows:
    """Raises:
    Unsupported: ON is not on the key, or the table has none.
    ConstraintViolation, InvalidArgument: a row cannot be changed or added as it says. Nothing was written.
    """
    target, statement = target_of(context, statement), naming_source_shortly(context, statement)
    source = select.spooled(context, exp.select("*").from_(statement.source.copy(), copy=False), of_shares(context))
    keys = key_pairs(statement, target, source.columns)
    branches = tuple(Branches(target, statement, keys, source.columns))
    if not branches:
        return target.affected(0)
    every = any(reads_itself(context, branch.query, target.table, {SOURCE}) for branch in branches)
    merging = Merging(context, target, branches)
    if isinstance(source.rows, RowParts):
        changes = merge_parts(merging, statement, keys, source.rows, every=every)
        given = sum(part.num_rows for part in source.rows.tables()) if context.rules == "k3" else 0
    else:
        wanted = EVERYTHING if every else ReadSelection(bounds=bounds_of(keys, source.rows, target.schema))
        changes = target.client.revise(partial(merging.revision, source.rows), user=target.user, wanted=wanted)
        given = source.rows.num_rows
    return target.affected(given if context.rules == "k3" else changes)


ROWS = registered(
    StatementSpec(
        "MERGE INTO t USING (VALUES …), (SELECT …) or a table AS s ON t.key = s.…"
        " [WHEN MATCHED [AND …] THEN UPDATE SET … or *, DELETE or DO NOTHING]"
        " [WHEN NOT MATCHED [AND …] THEN INSERT (…) VALUES (…) or *, or DO NOTHING]",
        "changes, removes and adds rows by those of a source",
        table_right("write"),
        merge,
        requires=Requirement("updates", "MERGE"),
    ),
)

GRAMMARS: Mapping[str, Grammar] = {"MERGE": read_merge}
