"""Executes the statements about engines."""

from __future__ import annotations

from lakewarden.catalog.changes.engines import engine_changed_at, engine_id
from lakewarden.maintenance.admin.namespaces import switch_engine
from lakewarden.sql.context import Context
from lakewarden.sql.results import ResultRows, StatementDone, listing
from lakewarden.sql.statements.namespaces import DisableEngine, EnableEngine, ShowEngines
from lakewarden.sql.system.listings import MOMENT, WHOLE, tables_by_namespace, texts


def enable_engine(context: Context, statement: EnableEngine) -> StatementDone:
    switch_engine(context.warehouse, statement.name, active=True, settings=statement.settings)
    return StatementDone(f"engine of namespace {statement.name} enabled")


def disable_engine(context: Context, statement: DisableEngine) -> StatementDone:
    switch_engine(context.warehouse, statement.name, active=False)
    return StatementDone(f"engine of namespace {statement.name} disabled")


def show_engines(context: Context, _: ShowEngines) -> ResultRows:
    columns = texts("namespace_id", "engine_id", "status", "settings") | {"table_count": WHOLE}
    columns |= {"created_at": MOMENT, "updated_at": MOMENT}
    counts = tables_by_namespace(context.catalog)
    return listing(
        columns,
        [
            {
                "namespace_id": one.name,
                "engine_id": engine_id(one),
                "status": "active" if one.engine.active else "disabled",
                "settings": one.engine.settings,
                "table_count": counts[one.name],
                "created_at": one.created_at,
                "updated_at": engine_changed_at(one),
            }
            for one in context.catalog.namespaces.values()
        ],
    )
