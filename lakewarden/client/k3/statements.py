"""`execute`: one statement of SQL in a bucket, by K3's rules (K3-60 to K3-101)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import cast

from sqlglot import exp

from lakewarden.base.commit_metadata import Metadata
from lakewarden.catalog.changes.engines import require_active
from lakewarden.catalog.evolution import DropColumn, RenameColumn
from lakewarden.client.k3.answers import queried, written
from lakewarden.client.k3.calls import DEFAULTS, Calls, only
from lakewarden.client.k3.messages import DefinitionAnswer, QueryAnswer, WriteAnswer
from lakewarden.client.k3.wire import int64, member, whole
from lakewarden.errors import Internal, InvalidArgument, Unsupported
from lakewarden.maintenance.planning.drains import table_size
from lakewarden.sql.results import Freshness, ResultRows
from lakewarden.sql.statement import OnTable, Statement, UnsupportedStatement
from lakewarden.sql.statements.alter_table import AlterTable, DropTable
from lakewarden.sql.statements.change import Delete, Update
from lakewarden.sql.statements.create_as import CreateTableAs
from lakewarden.sql.statements.create_table import CreateTable
from lakewarden.sql.statements.insert import Insert, Overwrite, Truncate
from lakewarden.sql.statements.merge import Merge
from lakewarden.sql.statements.query import Explain, Query
from lakewarden.tables.freshness import Freshness as Reading

_READS: Mapping[Freshness, Reading] = {
    Freshness.UNSPECIFIED: "eventual",
    Freshness.EVENTUAL: "eventual",
    Freshness.STRONG: "strong",
    Freshness.OLTP_ONLY: "oltp_only",
}
_WRITES = (Insert, Overwrite, Update, Delete, Truncate, Merge)
_DEFINES: Mapping[type[Statement], str] = {
    CreateTable: "create_table",
    CreateTableAs: "create_table_as_select",
    AlterTable: "alter_table",
    DropTable: "drop_table",
}
_PLACEHOLDER = "{table}"
_MOST_SERVED = 1_000_000
"""Rows of one answer over a network: as Python's objects they take forty times their memory."""


class StatementCalls(Calls):
    """The call for SQL."""

    def execute(
        self,
        bucket: str,
        sql: str,
        freshness: object = Freshness.EVENTUAL.wire,
        limit: object = 10_000,
        table: str = "",
        lookup_tables: Mapping[str, str] = MappingProxyType({}),
        user_metadata: Metadata | None = None,
    ) -> WriteAnswer | QueryAnswer | DefinitionAnswer:
        """Runs one statement, whose tables are named without their bucket.

        Args:
            freshness: of a query, by K3's name; writes ignore it.
            limit: the most rows that a query answers.
            table: what `{table}` in the text means.
            lookup_tables: tables of the bucket by the names that a query has for them.

        Raises:
            InvalidArgument: several statements, or an argument that is not valid.
            Unsupported: a statement that K3 does not take.
        """
        catalog = self._catalog(bucket)
        reading, most = _READS[member(Freshness, "freshness", freshness)], whole("limit", limit)
        if most < 0:
            raise InvalidArgument(f"limit {most}: how many rows to answer, 0 or more")
        if self._services.served and most > _MOST_SERVED:
            raise InvalidArgument(f"limit {most:,}: a server answers up to {_MOST_SERVED:,} rows; more come from /v1/api/sql")
        statement = _checked(only(self._session(bucket).parsed(_filled(sql, table))))
        if isinstance(statement, (Query, Explain)):
            require_active(catalog, bucket)
            return self._queried(bucket, _over(statement, _renamed(statement.query, lookup_tables)), reading, most)
        if isinstance(statement, _WRITES):
            return written(statement.table.name, self._run(bucket, statement))
        return self._defined(bucket, cast("OnTable", statement))

    def _queried(self, bucket: str, statement: Query | Explain, reading: Reading, limit: int) -> QueryAnswer:
        limited = _over(statement, _limited(statement.query, limit)) if isinstance(statement, Query) else statement
        found = self._run(bucket, limited, reading)
        if not isinstance(found, ResultRows):
            raise Internal(f"a query answered {type(found).__name__}")
        return queried(found, limit)

    def _defined(self, bucket: str, statement: OnTable) -> DefinitionAnswer:
        name, operation = statement.table.name, _DEFINES[type(statement)]
        if isinstance(statement, (CreateTable, CreateTableAs)):
            statement = _by_k3(statement)
        self._run(bucket, statement)
        if operation == "drop_table":
            return {"op": operation, "targetTable": name}
        size = table_size(self._warehouse, self._table(bucket, name, None))
        return {"op": operation, "targetTable": name, "version": int64(size.version or 0)}


def _filled(text: str, table: str) -> str:
    if _PLACEHOLDER in text and not table:
        raise InvalidArgument(f"the text has {_PLACEHOLDER}, and no table is given for it")
    return text.replace(_PLACEHOLDER, exp.to_identifier(table, quoted=True).sql("duckdb"))


def _checked(statement: Statement) -> Statement:
    """Raises Unsupported: K3 does not take the statement."""
    if isinstance(statement, AlterTable) and isinstance(statement.change, (DropColumn, RenameColumn)):
        raise Unsupported("K3 drops and renames no column: make a new table, or use Lakewarden's own SQL")
    if not isinstance(statement, (Query, Explain, *_WRITES, *_DEFINES)):
        what = statement.what if isinstance(statement, UnsupportedStatement) else statement.spec.syntax or "this statement"
        raise Unsupported(f"{what}: execute takes queries, writes of rows, and CREATE, ALTER and DROP TABLE")
    return statement


def _by_k3(statement: CreateTable | CreateTableAs) -> CreateTable | CreateTableAs:
    """A SHARED table, in which a later insert of a key wins."""
    if statement.type != "SHARED":
        raise Unsupported(f"a bucket has SHARED tables, not {statement.type} ones")
    named = {key.upper() for key, _ in statement.options}
    return replace(statement, options=(*statement.options, *(pair for pair in DEFAULTS.items() if pair[0] not in named)))


def _over(statement: Query | Explain, query: exp.Query) -> Query | Explain:
    return Query.of(query) if isinstance(statement, Query) else Explain(query)


def _renamed(query: exp.Query, tables: Mapping[str, str]) -> exp.Query:
    """The query over other tables than it names, which keep its names for them."""
    made = query.copy()
    for node in [node for node in made.find_all(exp.Table) if not node.db and node.name in tables]:
        if not node.args.get("alias"):
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        node.set("this", exp.to_identifier(tables[node.name], quoted=True))
    return made


def _limited(query: exp.Query, limit: int) -> exp.Query:
    """The query with a limit of its own, or with that of the call."""
    return query if query.args.get("limit") else cast("Callable[..., exp.Query]", query.limit)(limit)
