"""Executes the statements about the whole warehouse."""

from __future__ import annotations

import json

from lakewarden.maintenance.admin.settings import alter_warehouse as alter
from lakewarden.maintenance.admin.settings import settings_of
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.declaring import options_of
from lakewarden.sql.results import ResultRows, Row, StatementDone, listing
from lakewarden.sql.statements.warehouse import AlterWarehouse, ShowSettings
from lakewarden.sql.system.listings import texts


def alter_warehouse(context: Context, statement: AlterWarehouse) -> StatementDone:
    changes = options_of(statement.settings)
    alter(context.warehouse, changes, context.principal, context.door.audit)
    return StatementDone(f"warehouse altered: {', '.join(f'{key} = {value}' for key, value in changes.items())}")


def show_settings(context: Context, _: ShowSettings) -> ResultRows:
    rows: list[Row] = [
        {
            "key": one.key,
            "value": json.dumps(one.value),
            "default": json.dumps(one.default),
            "bounds": one.bounds,
            "description": one.description,
        }
        for one in settings_of(context.warehouse)
    ]
    return listing(texts("key", "value", "default", "bounds", "description"), rows)
