"""Maps each statement that is not a query to its handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakewarden.sql import statements as of
from lakewarden.sql.context import Context
from lakewarden.sql.handlers import change, define, operate, show, subscribe
from lakewarden.sql.results import Result


def handle(context: Context, statement: of.Statement) -> Result:
    """Raises:
    LakewardenError: the statement failed.
    """
    result = _HANDLERS[type(statement)](context, statement)
    audited = _AUDITED.get(type(statement))
    if audited is not None:
        context.door.audit.note(context.principal, audited[0], audited[1](context, statement))
    return result


_HANDLERS: dict[type, Callable[[Context, Any], Result]] = {
    of.CreateNamespace: define.create_namespace,
    of.DropNamespace: define.drop_namespace,
    of.AlterNamespace: define.alter_namespace,
    of.UseNamespace: define.use_namespace,
    of.CreateTable: define.create_table,
    of.AlterTable: define.alter_table,
    of.DropTable: define.drop_table,
    of.CreateView: define.create_view,
    of.DropView: define.drop_view,
    of.CreateStorage: define.create_storage,
    of.AlterStorage: define.alter_storage,
    of.DropStorage: define.drop_storage,
    of.CreateUser: define.create_user,
    of.AlterUser: define.alter_user,
    of.DropUser: define.drop_user,
    of.CheckStorage: show.check_storage,
    of.Insert: change.insert,
    of.Update: change.update,
    of.Delete: change.delete,
    of.Show: show.show,
    of.ShowTables: show.show_tables,
    of.ShowStats: show.show_stats,
    of.Describe: show.describe,
    of.DescribeHistory: show.history,
    of.StorageJob: operate.storage_job,
    of.MoveTable: operate.move_table,
    of.Optimize: operate.optimize,
    of.Vacuum: operate.vacuum,
    of.Restore: operate.restore,
    of.ApplyPlan: operate.apply_plan,
    of.KillJob: operate.kill_job,
    of.KillLiveQuery: operate.kill_live_query,
    of.Subscribe: subscribe.peek,
    of.ExportUserData: operate.export_user_data,
}

_AUDITED: dict[type, tuple[str, Callable[[Context, Any], str]]] = {
    of.CreateNamespace: ("CREATE_NAMESPACE", lambda _, one: f"namespace:{one.name}"),
    of.DropNamespace: ("DROP_NAMESPACE", lambda _, one: f"namespace:{one.name}"),
    of.AlterNamespace: ("ALTER_NAMESPACE", lambda _, one: f"namespace:{one.name}"),
    of.CreateTable: ("CREATE_TABLE", lambda context, one: f"table:{context.named(one.table)}"),
    of.AlterTable: ("ALTER_TABLE", lambda context, one: f"table:{context.named(one.table)}"),
    of.DropTable: ("DROP_TABLE", lambda context, one: f"table:{context.named(one.table)}"),
    of.MoveTable: ("MOVE_TABLE", lambda context, one: f"table:{context.named(one.table)}"),
    of.CreateView: ("CREATE_VIEW", lambda context, one: f"view:{context.named(one.view)}"),
    of.DropView: ("DROP_VIEW", lambda context, one: f"view:{context.named(one.view)}"),
    of.CreateStorage: ("CREATE_STORAGE", lambda _, one: f"storage:{one.id}"),
    of.AlterStorage: ("ALTER_STORAGE", lambda _, one: f"storage:{one.id}"),
    of.DropStorage: ("DROP_STORAGE", lambda _, one: f"storage:{one.id}"),
    of.ApplyPlan: ("APPLY_PLAN", lambda _, one: f"plan:{one.id}"),
    of.KillJob: ("KILL_JOB", lambda _, one: f"job:{one.id}"),
    of.KillLiveQuery: ("KILL_LIVE_QUERY", lambda _, one: f"live:{one.id}"),
}
"""The audit entry of a completed statement, and its target. `admin.users` records changes of users itself."""
