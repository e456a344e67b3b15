"""Creates pipelines: a table without a schema, the pipeline that will fill it, its rule, and the table of its rejects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.pipelines import add_pipeline, change_rule, drop_pipeline, rule_named
from lakewarden.catalog.model import IngestRule, Pipeline, Table
from lakewarden.catalog.options import parse_options as table_options
from lakewarden.catalog.state.ledger import forget_ledger
from lakewarden.errors import InUse
from lakewarden.ingest.pipelines.declaration import Declaration, changed_rule, declared
from lakewarden.ingest.pipelines.rejects import rejects_name, rejects_table
from lakewarden.ingest.pipelines.source import default_source
from lakewarden.ingest.templates.registry import template_named
from lakewarden.ingest.templates.template import Template
from lakewarden.storage.location import canonical, join, overlaps
from lakewarden.storage.paths import STATE
from lakewarden.tables.warehouse import Warehouse

_ID_LENGTH = 16


def make_pipeline(
    warehouse: Warehouse, name: TableName, template: str, options: Mapping[str, object], description: str = ""
) -> Pipeline:
    """Args:
        options: as `ingest.pipelines.declaration` has them.

    Raises:
        NotFound: no such template, namespace or storage.
        InvalidArgument, AlreadyExists, InUse: nothing was created.
    """
    found = template_named(template)
    wanted = declared(found, options)
    rejects_name(name)
    now = warehouse.clock()
    blank = Table(
        id=warehouse.new_id(),
        name=name,
        type="SHARED",
        options=table_options("SHARED", wanted.table),
        schemas=(),
        log_id=warehouse.new_id(),
        created_at=now,
        description=description,
    )
    pipeline = Pipeline(
        id=f"pl_{warehouse.new_id()[:_ID_LENGTH]}",
        table=name,
        table_id=blank.id,
        template=found.name,
        source=_source(warehouse, name, wanted),
        created_at=now,
        options=json.dumps(wanted.template),
        primary_key=wanted.primary_key,
        partition_by=wanted.partition_by,
        missing_columns=wanted.missing_columns,
    )
    rule = _rule(warehouse, found, wanted, pipeline)
    warehouse.catalog.change(lambda catalog: add_pipeline(catalog, blank, pipeline, rule, warehouse.base))
    rejects_table(warehouse, name)
    return pipeline


def edit_rule(warehouse: Warehouse, rule_id: str, options: Mapping[str, object]) -> IngestRule:
    """Raises:
    NotFound: no such rule.
    InvalidArgument: an unknown option, or a bad value; nothing was changed.
    """
    now = warehouse.clock()
    after = warehouse.catalog.change(lambda catalog: change_rule(catalog, rule_id, lambda rule: changed_rule(rule, options), now))
    return rule_named(after, rule_id)


def remove_pipeline(warehouse: Warehouse, pipeline_id: str) -> None:
    """Removes a pipeline with its rule and ledger; its table stays, as a manual one.

    Raises:
        NotFound, FailedPrecondition: as `drop_pipeline`.
    """
    warehouse.catalog.change(lambda catalog: drop_pipeline(catalog, pipeline_id))
    forget_ledger(warehouse.state, pipeline_id)


def _rule(warehouse: Warehouse, template: Template[Any], wanted: Declaration, pipeline: Pipeline) -> IngestRule:
    made = IngestRule(
        id=f"rule_{warehouse.new_id()[:_ID_LENGTH]}",
        pipeline_id=pipeline.id,
        globs=tuple(f"**/*.{extension}" for extension in template.accepted_extensions),
        created_at=pipeline.created_at,
        updated_at=pipeline.created_at,
    )
    return changed_rule(made, wanted.rule) if wanted.rule else made


def _source(warehouse: Warehouse, name: TableName, wanted: Declaration) -> str:
    """Raises:
    InvalidArgument: it does not name a place.
    InUse: it is inside the data or the state of the warehouse, or around them: files of tables would be taken for uploads.
    """
    if wanted.source is None:
        return default_source(name)
    place = canonical(wanted.source)
    bases = [warehouse.base(storage) for storage in warehouse.catalog.read().storages.values()]
    for taken in (join(warehouse.uri, STATE), *bases):
        if overlaps(place, canonical(taken)):
            raise InUse(f"the source {place} overlaps {taken}, where tables or their state are: choose a place of its own")
    return place
