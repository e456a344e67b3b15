"""One statement after the other: what each does, in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakewarden.sql import change, define, operate, rights, select, show
from lakewarden.sql import statements as of
from lakewarden.sql.context import Context
from lakewarden.sql.later import later
from lakewarden.sql.results import Result


def execute(context: Context, statement: of.Statement) -> Result:
    """Asks the gate once more, since the catalog may have changed, and does it.

    Raises:
        LakewardenError: it was not done.
    """
    rights.check(context, statement, {})
    return _run(context, statement)


def _run(context: Context, statement: of.Statement) -> Result:
    if isinstance(statement, of.ExecuteAs):
        return _run(context.as_(rights.impersonated(context, statement.user)), statement.statement)
    verb = _VERBS.get(type(statement))
    if verb is None:
        raise later(_LATER.get(type(statement), type(statement).__name__))
    return verb(context, statement)


def _query(context: Context, statement: of.Query) -> Result:
    return select.run(context, statement.query)


def _explain(context: Context, statement: of.Explain) -> Result:
    return select.explain(context, statement.query)


_VERBS: dict[type, Callable[[Context, Any], Result]] = {
    of.CreateNamespace: define.create_namespace,
    of.DropNamespace: define.drop_namespace,
    of.UseNamespace: define.use_namespace,
    of.CreateTable: define.create_table,
    of.AlterTable: define.alter_table,
    of.DropTable: define.drop_table,
    of.CreateView: define.create_view,
    of.DropView: define.drop_view,
    of.CreateStorage: define.create_storage,
    of.AlterStorage: define.alter_storage,
    of.DropStorage: define.drop_storage,
    of.CheckStorage: show.check_storage,
    of.Insert: change.insert,
    of.Update: change.update,
    of.Delete: change.delete,
    of.Query: _query,
    of.Explain: _explain,
    of.Show: show.show,
    of.ShowTables: show.show_tables,
    of.ShowStats: show.show_stats,
    of.Describe: show.describe,
    of.DescribeHistory: show.history,
    of.StorageJob: operate.storage_job,
    of.Optimize: operate.optimize,
    of.Vacuum: operate.vacuum,
    of.Restore: operate.restore,
    of.KillJob: operate.kill_job,
}

_LATER: dict[type, str] = {
    of.AlterNamespace: "ALTER NAMESPACE",
    of.CreateUser: "CREATE USER",
    of.AlterUser: "ALTER USER",
    of.DropUser: "DROP USER",
    of.Subscribe: "SUBSCRIBE",
    of.KillLiveQuery: "KILL LIVE QUERY",
    of.ExportUserData: "EXPORT USER DATA",
}
