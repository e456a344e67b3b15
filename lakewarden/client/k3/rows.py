"""Writes of rows without SQL: typed short ways to what statements do (K3-77 to K3-100)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from lakewarden.base.commit_metadata import Metadata
from lakewarden.catalog.evolution import anew
from lakewarden.client.k3.answers import written, wrote
from lakewarden.client.k3.calls import Calls, only
from lakewarden.client.k3.messages import WriteAnswer
from lakewarden.client.k3.values import Row, column_of, literal, native_literal, native_rows
from lakewarden.client.k3.wire import one_of
from lakewarden.errors import InvalidArgument
from lakewarden.sql.ref import Ref
from lakewarden.sql.results import WriteStrategy
from lakewarden.sql.statement import Statement
from lakewarden.sql.statements.change import Delete, Update
from lakewarden.sql.statements.merge import Merge
from lakewarden.sql.writing.merge_branches import When
from lakewarden.sql.writing.target import Assignment

_SOURCE = "given rows"


class RowWrites(Calls):
    """The calls that write rows."""

    def insert(
        self, bucket: str, table: str, rows: Sequence[Row | str], mode: str = "append", user_metadata: Metadata | None = None
    ) -> WriteAnswer:
        """Adds rows; with `overwrite`, they replace all that there are, by one commit.

        Raises:
            InvalidArgument, ConstraintViolation: a row does not fit; nothing was written.
        """
        one_of("mode", mode, ("append", "overwrite"))
        return anew(lambda: self._inserted(bucket, table, rows, mode))

    def _inserted(self, bucket: str, table: str, rows: Sequence[Row | str], mode: str) -> WriteAnswer:
        found = self._table(bucket, table, "write")
        client, given = self._client(found), native_rows(found.schema, rows)
        if mode == "append" and found.schema.keyed:
            upsert = found.options.on_duplicate == "replace"
            receipt = client.write(given, mode="upsert" if upsert else "insert")
            return wrote(table, receipt.rows, WriteStrategy.KEYED_INSERT_BULK, pending=receipt.rows > 0)
        complete = client.completed(given, user=None)
        direct = client.direct.overwrite([complete]) if mode == "overwrite" else client.direct.append([complete])
        version = direct.version if direct.committed else None
        return wrote(table, complete.num_rows, WriteStrategy.NON_KEYED_INSERT, pending=False, version=version)

    def merge(
        self,
        bucket: str,
        table: str,
        rows: Sequence[Row | str],
        when_matched: str = "update",
        when_not_matched: str = "insert",
        user_metadata: Metadata | None = None,
    ) -> WriteAnswer:
        """Merges rows by the table's keys; `rowsWritten` counts the rows that were given.

        Raises:
            Unsupported: the table has no merge keys.
            InvalidArgument, ConstraintViolation: a row does not fit, or has no key; nothing was written.
        """
        one_of("when_matched", when_matched, ("update", "delete"))
        one_of("when_not_matched", when_not_matched, ("insert", "ignore"))
        found = self._table(bucket, table, "write")
        objects = native_rows(found.schema, rows)
        names = list(dict.fromkeys(name for row in objects for name in row))
        if any(row.keys() != set(names) for row in objects):
            raise InvalidArgument("the rows of a merge have the same columns: leave none out in one row and not in another")
        missing = [name for name in found.schema.primary_key if name not in names]
        if missing and objects:
            raise InvalidArgument(f"the rows of a merge have every merge key; {missing[0]!r} is missing")
        if not objects:
            return wrote(table, 0, WriteStrategy.MERGE_ROWS, pending=False)
        values = [
            exp.Tuple(expressions=[native_literal(column_of(found.schema, name), row[name]) for name in names]) for row in objects
        ]
        others = tuple(name for name in names if name not in found.schema.primary_key)
        whens = _whens(names, others, when_matched, when_not_matched)
        on = [exp.EQ(this=_of(table, name), expression=_of(_SOURCE, name)) for name in found.schema.primary_key]
        alias = exp.TableAlias(
            this=exp.to_identifier(_SOURCE, quoted=True), columns=[exp.to_identifier(name, quoted=True) for name in names]
        )
        source = exp.Values(expressions=values, alias=alias)
        statement = Merge(Ref(table), source, _SOURCE, exp.and_(*on) if on else exp.true(), whens)
        return written(table, self._run(bucket, statement), WriteStrategy.MERGE_ROWS)

    def update(
        self, bucket: str, table: str, set: Mapping[str, object], where: str | None = None, user_metadata: Metadata | None = None
    ) -> WriteAnswer:
        """Sets columns to values in the rows that the condition, in SQL, matches; without one, in all.

        Raises:
            InvalidArgument, BadSyntax, ConstraintViolation: a column, a value or the condition is not valid.
        """
        if not set:
            raise InvalidArgument("set is empty: it has a value by column")
        found = self._table(bucket, table, "write")
        given = [Assignment(name, literal(column_of(found.schema, name), value)) for name, value in set.items()]
        parsed = self._parsed(bucket, _updating(table, given[0].column), where)
        if not isinstance(parsed, Update):
            raise InvalidArgument(f"where is one condition in SQL, not {where!r}")
        return written(table, self._run(bucket, replace(parsed, assignments=tuple(given))))

    def delete_rows(
        self, bucket: str, table: str, where: str | None = None, user_metadata: Metadata | None = None
    ) -> WriteAnswer:
        """Deletes the rows that the condition, in SQL, matches; without one, all. Raises as `update`."""
        self._table(bucket, table, "write")
        parsed = self._parsed(bucket, exp.delete(_table(table)), where)
        if not isinstance(parsed, Delete):
            raise InvalidArgument(f"where is one condition in SQL, not {where!r}")
        return written(table, self._run(bucket, parsed))

    def _parsed(self, bucket: str, head: exp.Expr, where: str | None) -> Statement:
        """The statement with the condition, read as a session reads it."""
        parts = [head.sql("duckdb"), *([where] if where and where.strip() else [])]
        return only(self._session(bucket).parsed(" WHERE ".join(parts)))


def _updating(table: str, column: str) -> exp.Update:
    """An UPDATE that sets any value; `update` has the values."""
    return exp.Update(this=_table(table), expressions=[exp.EQ(this=exp.column(column, quoted=True), expression=exp.null())])


def _whens(names: Sequence[str], others: tuple[str, ...], matched: str, not_matched: str) -> tuple[When, ...]:
    change = {
        "update": When(True, None, "update", others, tuple(_of(_SOURCE, name) for name in others)) if others else None,
        "delete": When(True, None, "delete"),
    }[matched]
    add = (
        When(False, None, "insert", tuple(names), tuple(_of(_SOURCE, name) for name in names))
        if not_matched == "insert"
        else None
    )
    return tuple(each for each in (change, add) if each is not None)


def _of(table: str, column: str) -> exp.Column:
    return exp.column(column, table, quoted=True)


def _table(name: str) -> exp.Table:
    return exp.table_(name, quoted=True)
