"""INSERT, INSERT OVERWRITE and TRUNCATE: rows of VALUES or of a query, through the write log or straight into Delta."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar, cast

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import Token

from lakewarden.base.scope import TableName
from lakewarden.delta.partitions import Partition, divided, filled
from lakewarden.errors import Unsupported
from lakewarden.sql.context import Context
from lakewarden.sql.plain_values import cells_of
from lakewarden.sql.queries.look_up_texts import insert_in
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import PartitionSpec, Ref
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.rights import Requirement, table_right
from lakewarden.sql.statement import AuditEntrySpec, Grammar, Statement, StatementSpec, computed, registered
from lakewarden.sql.statements.clauses import alias_of, assignments_of, named_of, only, ref_of, returning_of
from lakewarden.sql.writing.conflicts import OnConflict, insert_on_conflict
from lakewarden.sql.writing.direct import append, completed, overwrite_directly
from lakewarden.sql.writing.returning import Returning
from lakewarden.sql.writing.shapes import RowWrite, Verb
from lakewarden.sql.writing.target import (
    Assignment,
    WriteTarget,
    insert_temporary,
    of_shares,
    target_of,
)
from lakewarden.sql.writing.values import FileValue, RowSource, copied, incoming
from lakewarden.tables.client.client import WriteMode
from lakewarden.tables.intake import Revision
from lakewarden.tables.predicate import condition_of
from lakewarden.tables.rows.intake import RowParts, Rows
from lakewarden.tables.strong_read import ReadSelection

_FEW = 100
"""Rows of an INSERT that is a matter of milliseconds."""


@dataclass(frozen=True)
class Insert(RowSource):
    """`rows` has NULL in place of `files`."""

    conflict: OnConflict | None = None
    alias: str | None = None
    files: tuple[FileValue, ...] = ()
    verb: ClassVar[Verb] = "INSERT"

    def sets(self) -> Iterator[Ref | None]:
        return map(attrgetter("of"), self.assignments)

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """Of DO UPDATE."""
        return self.conflict.assignments or () if self.conflict is not None else ()

    @property
    def reads_own_table(self) -> bool:
        return self.conflict is not None or bool(self.returning)

    def queries(self) -> Iterator[exp.Expr]:
        yield from super().queries()
        if self.returning:
            yield from computed(*self.returning)
        if self.conflict is not None:
            yield from computed(*(each.value for each in self.assignments), self.conflict.where)

    def recognized(self, tokens: Sequence[Token]) -> Insert:
        # Only what a shape can make again: no clause may get lost, those included that come to this class later.
        if self.values is not None and self.is_plain and self == Insert(self.table, self.columns, self.rows, None, self.alias):
            insert_in(tokens, self.table, self.columns, self.alias, [cells_of(row) for row in self.values.expressions])
        return self

    def takes_temporary(self, name: TableName) -> bool:
        return not (self.conflict or self.files or self.returning) or super().takes_temporary(name)

    def file_names(self) -> Iterator[str]:
        return map(attrgetter("name"), self.files)

    def appends_to(self) -> Ref | None:
        """Where DuckDB computes nothing, and few keys are looked up."""
        if self.values is None or self.conflict or self.files or self.returning or len(self.values.expressions) > _FEW:
            return None
        return self.table if self.is_plain else None


@dataclass(frozen=True)
class Overwrite(RowSource):
    """INSERT OVERWRITE. The rows have no value for the columns of `partition`."""

    partition: PartitionSpec = ()
    verb: ClassVar[Verb] = "INSERT OVERWRITE"


@dataclass(frozen=True)
class Truncate(RowWrite):
    """Removes every row."""

    verb: ClassVar[Verb] = "TRUNCATE"

    @property
    def reads_own_table(self) -> bool:
        return False


_INSERT_PARTS = frozenset({"this", "expression", "conflict", "default", "by_name", "overwrite", "returning"})

_CONFLICT_PARTS = frozenset({"expressions", "action", "conflict_keys", "where"})


def read_insert(read: StatementReader) -> Statement:
    """Reads what follows INSERT."""
    found = read._parse_insert()
    only(read, found, _INSERT_PARTS, "INSERT")
    target, listed = (found.this.this, found.this.expressions) if isinstance(found.this, exp.Schema) else (found.this, ())
    columns = tuple(column.name for column in listed)
    partition = _read_partition(read, target)
    if partition and not found.args.get("overwrite"):
        raise Unsupported("INSERT … PARTITION is not supported: the rows themselves have the values of the partition columns")
    source = found.args.get("expression")
    if found.args.get("by_name"):
        raise Unsupported("INSERT BY NAME is not supported; list the columns after the table")
    if source is None and not found.args.get("default"):
        raise read.failure("expected VALUES or a query")
    files = tuple(_read_files(read, source)) if isinstance(source, exp.Values) else ()
    rows = None if source is None else _read_rows(read, source)
    conflict, returning = _read_conflict(read, found), returning_of(read, found)
    if found.args.get("overwrite"):
        return _read_overwrite(
            read, Insert(ref_of(read, target), columns, rows, conflict, files=files, returning=returning), partition
        )
    return Insert(ref_of(read, target), columns, rows, conflict, alias_of(target), files, returning=returning)


def _read_overwrite(read: StatementReader, found: Insert, partition: PartitionSpec) -> Overwrite:
    if found.rows is None or found.conflict is not None:
        raise read.misread("INSERT OVERWRITE takes VALUES or a query, and no ON CONFLICT")
    if found.returning:
        raise Unsupported("INSERT OVERWRITE … RETURNING is not supported")
    if found.files:
        raise Unsupported("INSERT OVERWRITE takes no FILE('name'); overwrite first, then insert the rows with files")
    return Overwrite(found.table, found.columns, found.rows, partition)


def _read_partition(read: StatementReader, target: exp.Expr) -> PartitionSpec:
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


def _read_files(read: StatementReader, values: exp.Values) -> Iterator[FileValue]:
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


def _read_rows(read: StatementReader, source: exp.Expr) -> exp.Query:
    if isinstance(source, exp.Values):
        return exp.select("*").from_(source)
    if not isinstance(source, exp.Query):
        raise read.misread("expected VALUES or a query")
    return source


def _read_conflict(read: StatementReader, found: exp.Expr) -> OnConflict | None:
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


def insert(context: Context, statement: Insert) -> AffectedRows:
    """Raises ConstraintViolation: a key exists and there is no ON CONFLICT, or a value does not fit. Nothing was written."""
    if (held := context.temporary_table(context.named(statement.table))) is not None:
        return insert_temporary(context, held, incoming(context, statement, held.table.schema))
    target = target_of(context, statement)
    if statement.conflict is not None:
        given = incoming(context, statement, target.schema, of_shares(context))
        return insert_on_conflict(context, statement.conflict, target, given, Returning(context, target, statement))
    if statement.returning:
        return _insert_returning(target, incoming(context, statement, target.schema), Returning(context, target, statement))
    if (files := copied(context, statement, target)) is not None:
        return append(target, files)
    given = incoming(context, statement, target.schema)
    if not target.plan.in_log:
        if statement.files:
            raise Unsupported(f"{target.table.name} has no primary key: a file belongs to a row that has one")
        return append(target, completed(target, given))
    mode: WriteMode = "upsert" if target.table.options.on_duplicate == "replace" else "insert"
    if isinstance(given, RowParts):
        return target.affected(target.client.write_parts(given, user=target.user, mode=mode).rows)
    return target.affected(target.client.write(given, user=target.user, mode=mode).rows)


def _insert_returning(target: WriteTarget, given: Rows | RowParts, returning: Returning) -> AffectedRows:
    """The rows have their defaults, and RETURNING its values, before they are written."""
    returning.check_in_memory(given)
    assert not isinstance(given, RowParts), "it was refused"
    taken = target.client.take_files(given, target.user)
    rows = target.client.completed(taken.rows, user=target.user, follows=False)
    returning.note(rows)
    if not target.plan.in_log and not taken.files:
        return returning.of(append(target, [rows]))
    mode: WriteMode = "upsert" if target.table.options.on_duplicate == "replace" else "insert"
    receipt = target.client.write_taken(taken._replace(rows=rows), user=target.user, mode=mode)
    return returning.of(target.affected(receipt.rows))


def read_truncate(read: StatementReader) -> Statement:
    read.word("TABLE")
    return Truncate(read.ref())


# Executes INSERT OVERWRITE of dynamic tables: of the partition that is named, or of those that the rows fall into (FL-43).
def overwrite_dynamic(context: Context, statement: Overwrite, target: WriteTarget) -> AffectedRows:
    """Raises:
    ConstraintViolation, InvalidArgument: a row or a named partition does not fit, or a key is given twice. Nothing was changed.
    Conflict: a flush changed the same partitions meanwhile. Nothing was changed.
    """
    table = target.table
    named = dict(named_of(table, statement.partition)) if statement.partition else {}
    if named and not statement.columns:
        rest = tuple(name for name in table.schema.names if name not in named)
        statement = replace(statement, columns=rest)
    rows = _completed(context, statement, target, named)
    if len(named) == len(table.schema.partition_by):
        partitions = [tuple(named.items())] if named else []
    else:
        partitions = list(dict.fromkeys(each for part in rows() for each in _partitions(part, table.schema.partition_by)))
        if not partitions:
            return target.affected(0)  # no row says which partitions would be replaced
    result = target.client.direct.overwrite((part for part in rows() if part.num_rows), within=condition_of(partitions))
    return target.affected(result.rows_inserted, result.version if result.committed else None)


def _partitions(rows: pa.Table, columns: Sequence[str]) -> Iterator[Partition]:
    return (partition for partition, _ in divided(rows, columns)) if rows.num_rows else iter(())


def _completed(
    context: Context, statement: Overwrite, target: WriteTarget, named: dict[str, str | None]
) -> Callable[[], Iterable[pa.Table]]:
    """The rows as they are stored, as often as they are needed."""
    given = incoming(context, statement, target.schema)
    kinds = {column.name: column.type.arrow for column in target.schema.columns}

    def complete(rows: pa.Table) -> pa.Table:
        for name, text in named.items():
            rows = rows.append_column(name, filled(text, rows.num_rows, kinds[name]))
        return target.client.completed(rows, user=None)

    if isinstance(given, RowParts):
        return lambda: map(complete, given.tables())
    if isinstance(given, pa.Table):
        made = complete(given)
    else:
        values = {name: filled(text, 1, kinds[name])[0].as_py() for name, text in named.items()}
        every = cast("Iterable[Mapping[str, object]]", given)  # `incoming` returns a table or dicts
        made = target.client.completed([{**row, **values} for row in every], user=None)
    return lambda: [made]


# Executes INSERT OVERWRITE and TRUNCATE: by one commit in Delta; in a USER table by one call of the log.
def overwrite(context: Context, statement: Overwrite) -> AffectedRows:
    """Raises:
    ConstraintViolation, InvalidArgument: a row does not fit, or a key is given twice. Nothing was changed.
    """
    target = target_of(context, statement)
    if target.table.dynamic is not None:
        return overwrite_dynamic(context, statement, target)
    if statement.partition:
        raise Unsupported(f"INSERT OVERWRITE … PARTITION is for dynamic tables, and {target.table.name} is not one")
    if (files := copied(context, statement, target)) is not None:
        return overwrite_directly(target, files)
    return _replaced(target, incoming(context, statement, target.schema))


def truncate(context: Context, statement: Truncate) -> AffectedRows:
    return _replaced(target_of(context, statement), None)


def _replaced(target: WriteTarget, given: Rows | RowParts | None) -> AffectedRows:
    if not target.plan.in_log:
        return overwrite_directly(target, None if given is None else completed(target, given))
    if isinstance(given, RowParts):
        return target.affected(target.client.write_parts(given, user=target.user, mode="replace").rows)
    rows = None if given is None else target.client.completed(given, user=target.user)

    def decide(live: pa.Table) -> Revision:
        return Revision(rows, live.select(target.schema.primary_key))

    changes = target.client.revise(decide, user=target.user, wanted=ReadSelection(target.schema.primary_key))
    return target.affected(changes if rows is None else rows.num_rows)


ROWS = registered(
    StatementSpec(
        "INSERT INTO t [(…)] VALUES … or SELECT … [ON CONFLICT [(…)] DO NOTHING or DO UPDATE SET … [WHERE …]] [RETURNING …]",
        "adds rows",
        table_right("write"),
        insert,
        requires=Requirement("updates", "ON CONFLICT", lambda one: one.conflict is not None),
    ),
    StatementSpec(
        "INSERT OVERWRITE [TABLE] t [PARTITION (c = value, …)] [(…)] VALUES … or SELECT …",
        "replaces all rows; of a USER table those of the session's user, of a dynamic table the partitions of its rows",
        table_right("write"),
        overwrite,
        requires=Requirement("updates", "INSERT OVERWRITE"),
    ),
    StatementSpec(
        "TRUNCATE [TABLE] t",
        "removes all rows; of a USER table those of the session's user",
        table_right("write"),
        truncate,
        requires=Requirement("updates", "TRUNCATE"),
        audited=AuditEntrySpec("TRUNCATE_TABLE", "table", "table"),
    ),
)

GRAMMARS: Mapping[str, Grammar] = {"INSERT": read_insert, "TRUNCATE": read_truncate}
