"""Parses INSERT, UPDATE, DELETE and TRUNCATE with sqlglot, and takes the tree apart.

Refuses, never ignores, a part that is unsupported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Ref, Statement
from lakewarden.sql.statements.definitions import PartitionSpec
from lakewarden.sql.statements.rows import (
    Assignment,
    Delete,
    Explain,
    FileValue,
    Insert,
    Merge,
    OnConflict,
    Overwrite,
    Query,
    Truncate,
    Update,
    When,
)

_INSERT_PARTS = frozenset({"this", "expression", "conflict", "default", "by_name", "overwrite"})
_UPDATE_PARTS = frozenset({"this", "expressions", "where"})
_DELETE_PARTS = frozenset({"this", "where"})
_CONFLICT_PARTS = frozenset({"expressions", "action", "conflict_keys", "where"})


def insert(read: StatementReader) -> Statement:
    """Reads what follows INSERT."""
    found = read._parse_insert()
    only(read, found, _INSERT_PARTS, "INSERT")
    target, columns = _target(found.this)
    partition = _partition(read, target)
    if partition and not found.args.get("overwrite"):
        raise Unsupported("INSERT … PARTITION is not supported: the rows themselves have the values of the partition columns")
    source = found.args.get("expression")
    if found.args.get("by_name"):
        raise Unsupported("INSERT BY NAME is not supported; list the columns after the table")
    if source is None and not found.args.get("default"):
        raise read.failure("expected VALUES or a query")
    files = tuple(_files(read, source)) if isinstance(source, exp.Values) else ()
    rows = None if source is None else _rows(read, source)
    if found.args.get("overwrite"):
        return _overwrite(read, Insert(ref_of(read, target), columns, rows, _conflict(read, found), files=files), partition)
    return Insert(ref_of(read, target), columns, rows, _conflict(read, found), _alias(target), files)


def _overwrite(read: StatementReader, found: Insert, partition: PartitionSpec) -> Overwrite:
    if found.rows is None or found.conflict is not None:
        raise read.misread("INSERT OVERWRITE takes VALUES or a query, and no ON CONFLICT")
    if found.files:
        raise Unsupported("INSERT OVERWRITE takes no FILE('name'); overwrite first, then insert the rows with files")
    return Overwrite(found.table, found.columns, found.rows, partition)


def _partition(read: StatementReader, target: exp.Expr) -> PartitionSpec:
    """The values after PARTITION, which is then no part of the table any more."""
    found = target.args.get("partition")
    if found is None:
        return ()
    target.set("partition", None)
    return tuple(_partition_value(read, each) for each in found.expressions)


def _partition_value(read: StatementReader, each: exp.Expr) -> tuple[str, str | None]:
    value = each.args.get("expression")
    if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column) or not isinstance(value, (exp.Literal, exp.Null)):
        raise read.misread("expected a value of a partition column: column = value")
    return each.this.name, None if isinstance(value, exp.Null) else value.name


def _files(read: StatementReader, values: exp.Values) -> Iterator[FileValue]:
    """Replaces each `FILE('name')` in the rows by NULL, and returns them."""
    for number, row in enumerate(values.expressions):
        for place, cell in enumerate(row.expressions if isinstance(row, exp.Tuple) else [row]):
            if isinstance(cell, exp.Anonymous) and cell.name.upper() == "FILE":
                name = cell.expressions[0] if len(cell.expressions) == 1 else None
                quoted = isinstance(name, exp.Column) and not name.table
                if name is None or not (quoted or (isinstance(name, exp.Literal) and name.is_string)):
                    raise read.misread("expected FILE('name'), with the name of an attached file")
                cell.replace(exp.null())
                yield FileValue(number, place, name.name)


def _target(found: exp.Expr) -> tuple[exp.Expr, tuple[str, ...]]:
    """The table, and the columns after it."""
    if isinstance(found, exp.Schema):
        return found.this, tuple(column.name for column in found.expressions)
    return found, ()


def _rows(read: StatementReader, source: exp.Expr) -> exp.Query:
    if isinstance(source, exp.Values):
        return exp.select("*").from_(source)
    if not isinstance(source, exp.Query):
        raise read.misread("expected VALUES or a query")
    return source


def _conflict(read: StatementReader, found: exp.Expr) -> OnConflict | None:
    conflict = found.args.get("conflict")
    if conflict is None:
        return None
    only(read, conflict, _CONFLICT_PARTS, "ON CONFLICT")
    action = str(conflict.args.get("action") or "").upper()
    columns = tuple(column.name for column in conflict.args.get("conflict_keys") or ())
    where = conflict.args.get("where")
    if action == "DO NOTHING":
        return OnConflict(columns, None)
    if action != "DO UPDATE" or not conflict.expressions:
        raise read.misread("expected DO NOTHING, or DO UPDATE SET with at least one assignment")
    return OnConflict(columns, assignments_of(read, conflict.expressions), where and where.this)


def update(read: StatementReader) -> Statement:
    """Reads what follows UPDATE."""
    start = read._index
    found = read._parse_update()
    only(read, found, _UPDATE_PARTS, "UPDATE")
    if not found.expressions:
        raise read.failure("expected SET with at least one assignment")
    if read.clauses(start, (TokenType.SET, TokenType.WHERE)) not in (["SET"], ["SET", "WHERE"]):  # sqlglot keeps the last of each
        raise read.misread("UPDATE takes one SET, and behind it one WHERE")
    return Update(ref_of(read, found.this), assignments_of(read, found.expressions), _where(found), _alias(found.this))


def delete(read: StatementReader) -> Statement:
    """Reads what follows DELETE."""
    if not read.word("FROM"):
        raise read.failure("expected FROM")
    read._retreat(read._index - 1)
    found = read._parse_delete()
    only(read, found, _DELETE_PARTS, "DELETE")
    return Delete(ref_of(read, found.this), _where(found), _alias(found.this))


def truncate(read: StatementReader) -> Statement:
    read.word("TABLE")
    return Truncate(read.ref())


def query(read: StatementReader) -> Statement:
    """Reads a query from its first word on, which was read to tell what it is."""
    read._retreat(read._index - 1)
    return Query.of(read.query())


def explain(read: StatementReader) -> Statement:
    return Explain(read.query())


def _where(found: exp.Expr) -> exp.Expr | None:
    where = found.args.get("where")
    return None if where is None else where.this


def assignments_of(read: StatementReader, found: list[exp.Expr]) -> tuple[Assignment, ...]:
    made = []
    for each in found:
        if not isinstance(each, exp.EQ) or not isinstance(each.this, exp.Column):
            raise read.misread("expected an assignment: column = value")
        table = Ref(each.this.table, each.this.text("db") or None) if each.this.table else None
        made.append(Assignment(each.this.name, each.expression, table))
    names = [one.column.lower() for one in made]
    if len(set(names)) < len(names):
        raise InvalidArgument("a column is set twice")
    return tuple(made)


def ref_of(read: StatementReader, found: exp.Expr | None) -> Ref:
    if not isinstance(found, exp.Table) or not isinstance(found.this, exp.Identifier):
        raise read.misread("expected the name of a table")
    only(read, found, frozenset({"this", "db", "catalog", "alias"}), "a table here")
    if found.catalog:
        raise InvalidArgument(f"{found.catalog}.{found.db}.{found.name} has three parts; a table is namespace.table")
    return Ref(found.name, found.db or None)


def _alias(found: exp.Expr) -> str | None:
    return found.alias or None


def only(read: StatementReader, found: exp.Expr, parts: frozenset[str], what: str) -> None:
    extra = [name for name, value in found.args.items() if value and name not in parts]
    if "returning" in extra:
        raise Unsupported(f"{what} … RETURNING is not supported")
    if extra:
        raise read.misread(f"{what} takes no {extra[0].strip('_').replace('_', ' ').upper()}")


# Parses MERGE with sqlglot, and takes the tree apart.
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
