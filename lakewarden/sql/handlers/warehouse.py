"""Executes the statements about the whole warehouse, engines, and pipelines with their rules."""

from __future__ import annotations

import json

from lakewarden.catalog.changes.engines import engine_changed_at, engine_id
from lakewarden.catalog.changes.pipelines import pipelines_in, rule_of, status_of
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.pipelines.create import edit_rule, make_pipeline, remove_pipeline
from lakewarden.ingest.pipelines.source import source_uri
from lakewarden.maintenance.admin.namespaces import switch_engine
from lakewarden.maintenance.admin.settings import alter_warehouse as alter
from lakewarden.maintenance.admin.settings import settings_of
from lakewarden.sql.context import Context
from lakewarden.sql.handlers.tables import options_of
from lakewarden.sql.results import ResultRows, Row, StatementDone, listing
from lakewarden.sql.statements.base import Pairs
from lakewarden.sql.statements.definitions import (
    AlterRule,
    AlterWarehouse,
    CreateFromTemplate,
    DisableEngine,
    DropPipeline,
    EnableEngine,
    ShowEngines,
    ShowPipelines,
    ShowRules,
    ShowSettings,
)
from lakewarden.sql.system_listings import FLAG, MOMENT, WHOLE, tables_by_namespace, texts


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


# Executes the statements about engines.
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


# Executes the statements about pipelines and their rules.
def create_from_template(context: Context, statement: CreateFromTemplate) -> StatementDone:
    name = context.named(statement.table)
    if statement.if_not_exists and (name in context.catalog.tables or name in context.catalog.blanks):
        return StatementDone(f"table {name} already exists")
    pipeline = make_pipeline(context.warehouse, name, statement.template, _each_once(statement.options))
    place = source_uri(context.warehouse, pipeline)
    return StatementDone(f"table {name} created; its schema comes with the first object of {place} (lakewarden ingest {name})")


def drop_pipeline(context: Context, statement: DropPipeline) -> StatementDone:
    if statement.if_exists and statement.pipeline not in context.catalog.pipelines:
        return StatementDone(f"skipped: there is no pipeline {statement.pipeline}")
    remove_pipeline(context.warehouse, statement.pipeline)
    return StatementDone(f"pipeline {statement.pipeline} dropped")


def alter_rule(context: Context, statement: AlterRule) -> StatementDone:
    edit_rule(context.warehouse, statement.rule, _each_once(statement.changes))
    return StatementDone(f"rule {statement.rule} altered")


def show_rules(context: Context, statement: ShowRules) -> ResultRows:
    columns = texts("rule_id", "pipeline_id", "namespace_id", "table_name", "globs", "excludes", "mime_types")
    columns |= {"min_size": WHOLE, "max_size": WHOLE, "enabled": FLAG, "created_at": MOMENT, "updated_at": MOMENT}
    rows: list[Row] = []
    for pipeline in pipelines_in(context.catalog, statement.namespace):
        rule = rule_of(context.catalog, pipeline)
        rows.append(
            {
                "rule_id": rule.id,
                "pipeline_id": pipeline.id,
                "namespace_id": pipeline.table.namespace,
                "table_name": pipeline.table.name,
                "globs": json.dumps(rule.globs),
                "excludes": json.dumps(rule.excludes),
                "mime_types": json.dumps(rule.mime_types),
                "min_size": rule.min_size,
                "max_size": rule.max_size,
                "enabled": rule.enabled,
                "created_at": rule.created_at,
                "updated_at": rule.updated_at,
            }
        )
    return listing(columns, rows)


def show_pipelines(context: Context, statement: ShowPipelines) -> ResultRows:
    columns = texts("pipeline_id", "namespace_id", "table_name", "template", "source", "options", "primary_key", "partition_by")
    columns |= texts("missing_columns", "rule_id", "status") | {"created_at": MOMENT}
    rows: list[Row] = [
        {
            "pipeline_id": one.id,
            "namespace_id": one.table.namespace,
            "table_name": one.table.name,
            "template": one.template,
            "source": source_uri(context.warehouse, one),
            "options": one.options,
            "primary_key": json.dumps(one.primary_key),
            "partition_by": json.dumps(one.partition_by),
            "missing_columns": one.missing_columns,
            "rule_id": rule_of(context.catalog, one).id,
            "status": status_of(context.catalog, one),
            "created_at": one.created_at,
        }
        for one in pipelines_in(context.catalog, statement.namespace)
    ]
    return listing(columns, rows)


def _each_once(pairs: Pairs) -> dict[str, str]:
    made: dict[str, str] = {}
    for key, value in pairs:
        if key.upper() in made:
            raise InvalidArgument(f"option {key} is given twice")
        made[key.upper()] = value
    return made
