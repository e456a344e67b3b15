"""Maps each statement that is not a query to its handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakewarden.sql.context import Context
from lakewarden.sql.handlers import change, define, operate, show, subscribe
from lakewarden.sql.results import Result
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.namespaces import AlterNamespace, CreateNamespace, DropNamespace, UseNamespace
from lakewarden.sql.statements.rows import Delete, Insert, Subscribe, Update
from lakewarden.sql.statements.show import Describe, DescribeHistory, Show, ShowStats, ShowTables
from lakewarden.sql.statements.storages import AlterStorage, CheckStorage, CreateStorage, DropStorage
from lakewarden.sql.statements.tables import AlterTable, CreateTable, CreateView, DropTable, DropView
from lakewarden.sql.statements.upkeep import (
    ApplyPlan,
    ExportUserData,
    KillJob,
    KillLiveQuery,
    MoveTable,
    Optimize,
    Restore,
    StorageJob,
    Vacuum,
)
from lakewarden.sql.statements.users import AlterUser, CreateUser, DropUser


def handle(context: Context, statement: Statement) -> Result:
    """Raises:
    LakewardenError: the statement failed.
    """
    result = _HANDLERS[type(statement)](context, statement)
    audited = _AUDITED.get(type(statement))
    if audited is not None:
        context.door.audit.note(context.principal, audited[0], audited[1](context, statement))
    return result


_HANDLERS: dict[type, Callable[[Context, Any], Result]] = {
    CreateNamespace: define.create_namespace,
    DropNamespace: define.drop_namespace,
    AlterNamespace: define.alter_namespace,
    UseNamespace: define.use_namespace,
    CreateTable: define.create_table,
    AlterTable: define.alter_table,
    DropTable: define.drop_table,
    CreateView: define.create_view,
    DropView: define.drop_view,
    CreateStorage: define.create_storage,
    AlterStorage: define.alter_storage,
    DropStorage: define.drop_storage,
    CreateUser: define.create_user,
    AlterUser: define.alter_user,
    DropUser: define.drop_user,
    CheckStorage: show.check_storage,
    Insert: change.insert,
    Update: change.update,
    Delete: change.delete,
    Show: show.show,
    ShowTables: show.show_tables,
    ShowStats: show.show_stats,
    Describe: show.describe,
    DescribeHistory: show.history,
    StorageJob: operate.storage_job,
    MoveTable: operate.move_table,
    Optimize: operate.optimize,
    Vacuum: operate.vacuum,
    Restore: operate.restore,
    ApplyPlan: operate.apply_plan,
    KillJob: operate.kill_job,
    KillLiveQuery: operate.kill_live_query,
    Subscribe: subscribe.peek,
    ExportUserData: operate.export_user_data,
}

_AUDITED: dict[type, tuple[str, Callable[[Context, Any], str]]] = {
    CreateNamespace: ("CREATE_NAMESPACE", lambda _, one: f"namespace:{one.name}"),
    DropNamespace: ("DROP_NAMESPACE", lambda _, one: f"namespace:{one.name}"),
    AlterNamespace: ("ALTER_NAMESPACE", lambda _, one: f"namespace:{one.name}"),
    CreateTable: ("CREATE_TABLE", lambda context, one: f"table:{context.named(one.table)}"),
    AlterTable: ("ALTER_TABLE", lambda context, one: f"table:{context.named(one.table)}"),
    DropTable: ("DROP_TABLE", lambda context, one: f"table:{context.named(one.table)}"),
    MoveTable: ("MOVE_TABLE", lambda context, one: f"table:{context.named(one.table)}"),
    CreateView: ("CREATE_VIEW", lambda context, one: f"view:{context.named(one.view)}"),
    DropView: ("DROP_VIEW", lambda context, one: f"view:{context.named(one.view)}"),
    CreateStorage: ("CREATE_STORAGE", lambda _, one: f"storage:{one.id}"),
    AlterStorage: ("ALTER_STORAGE", lambda _, one: f"storage:{one.id}"),
    DropStorage: ("DROP_STORAGE", lambda _, one: f"storage:{one.id}"),
    ApplyPlan: ("APPLY_PLAN", lambda _, one: f"plan:{one.id}"),
    KillJob: ("KILL_JOB", lambda _, one: f"job:{one.id}"),
    KillLiveQuery: ("KILL_LIVE_QUERY", lambda _, one: f"live:{one.id}"),
}
"""The audit entry of a completed statement, and its target. `admin.users` records changes of users itself."""
