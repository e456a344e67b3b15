"""Changes of pipelines and their rules, as pure functions of the catalog.

A pipeline's table has no schema until the first object gives it one. Until then it is `blank`: its name is taken and it can be
dropped, but no read, write or operation meets it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from lakewarden.base.clock import behind
from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.engines import is_active
from lakewarden.catalog.changes.objects import BaseOf, add_blank, add_table
from lakewarden.catalog.model import Catalog, IngestRule, Pipeline, Table, TableSchema
from lakewarden.errors import Conflict, FailedPrecondition, NotFound


def add_pipeline(catalog: Catalog, blank: Table, pipeline: Pipeline, rule: IngestRule, base_of: BaseOf) -> Catalog:
    """Adds a table without a schema, its pipeline, and the pipeline's rule.

    Raises:
        NotFound, InvalidArgument, AlreadyExists, InUse: as `add_table`.
    """
    catalog = add_blank(catalog, blank, base_of)
    return replace(catalog, pipelines={**catalog.pipelines, pipeline.id: pipeline}, rules={**catalog.rules, rule.id: rule})


def materialize(catalog: Catalog, pipeline: Pipeline, schema: TableSchema, above: int, base_of: BaseOf) -> Catalog:
    """Gives the blank table of a pipeline its first schema. Idempotent.

    Args:
        above: the number of the batch whose first object has the schema.

    Raises:
        NotFound: the table was dropped.
        Conflict: another attempt of the batch counts already, or another schema came first.
    """
    there = catalog.tables.get(pipeline.table)
    # Another process came first; the same schema is as good as ours.
    if there is not None and there.id == pipeline.table_id:
        if there.schemas[0] != schema:
            raise Conflict(f"{pipeline.table} was given another schema meanwhile; try again")
        return catalog
    blank = blank_of(catalog, pipeline)
    if catalog.pipelines[pipeline.id].landed > above:
        raise Conflict(f"the batch {above} of {pipeline.table} was finished by another process; try again")
    blanks = {name: table for name, table in catalog.blanks.items() if name != pipeline.table}
    return add_table(replace(catalog, blanks=blanks), replace(blank, schemas=(schema,)), base_of)


def land_blank(catalog: Catalog, pipeline_id: str, attempt: int, above: int) -> Catalog:
    """Notes that an attempt without rows counts, which its table cannot note: it has no schema yet.

    Raises:
        NotFound: the table was dropped.
        Conflict: the table has a schema now, which another attempt gave it.
    """
    pipeline = catalog.pipelines[pipeline_id]
    if pipeline.landed > above:
        return catalog
    if pipeline.table not in catalog.blanks:
        table_of(catalog, pipeline)
        raise Conflict(f"{pipeline.table} has a schema meanwhile; try again")
    blank_of(catalog, pipeline)
    return replace(catalog, pipelines={**catalog.pipelines, pipeline_id: replace(pipeline, landed=attempt)})


def blank_of(catalog: Catalog, pipeline: Pipeline) -> Table:
    """Raises NotFound: the table was dropped."""
    blank = catalog.blanks.get(pipeline.table)
    if blank is None or blank.id != pipeline.table_id:
        raise _dropped(pipeline)
    return blank


def table_of(catalog: Catalog, pipeline: Pipeline) -> Table | None:
    """Returns the pipeline's table; None as long as it has no schema.

    Raises:
        NotFound: it was dropped.
    """
    if pipeline.table in catalog.blanks:
        blank_of(catalog, pipeline)
        return None
    table = catalog.tables.get(pipeline.table)
    # A table of the same name that was made anew is not the pipeline's.
    if table is None or table.dropping or table.id != pipeline.table_id:
        raise _dropped(pipeline)
    return table


def _dropped(pipeline: Pipeline) -> NotFound:
    return NotFound(f"the table {pipeline.table} of pipeline {pipeline.id} was dropped; its rule and its ledger remain")


def drop_blank(catalog: Catalog, name: TableName) -> Catalog:
    """Removes a table that has no schema and no data. Its pipeline stays."""
    return replace(catalog, blanks={other: table for other, table in catalog.blanks.items() if other != name})


def pipeline_of(catalog: Catalog, name: TableName) -> Pipeline:
    """Returns the pipeline that fills a table.

    Raises:
        NotFound: the table does not exist.
        FailedPrecondition: it is a manual table, which no pipeline fills.
    """
    table = catalog.tables.get(name) or catalog.blanks.get(name)
    if table is None or table.dropping:
        raise NotFound(f"there is no table {name}")
    found = next((one for one in catalog.pipelines.values() if one.table_id == table.id), None)
    if found is None:
        raise FailedPrecondition(f"{name} is a manual table: it has no pipeline that could take objects")
    return found


def status_of(catalog: Catalog, pipeline: Pipeline) -> str:
    """`waiting` for a first object, `active`, `disabled` as its rule or engine, or `without table` once that was dropped."""
    try:
        table = table_of(catalog, pipeline)
    except NotFound:
        return "without table"
    if not (rule_of(catalog, pipeline).enabled and is_active(catalog, pipeline.table)):
        return "disabled"
    return "waiting" if table is None else "active"


def pipelines_in(catalog: Catalog, namespace: str | None = None) -> list[Pipeline]:
    """Returns the pipelines, or those of a namespace, in the order of creation."""
    return [one for one in catalog.pipelines.values() if namespace in (None, one.table.namespace)]


def rule_named(catalog: Catalog, rule_id: str, namespace: str | None = None) -> IngestRule:
    """Raises NotFound: the rule does not exist; the message lists those that do."""
    own = {one.id for one in pipelines_in(catalog, namespace)}
    there = {rule.id: rule for rule in catalog.rules.values() if rule.pipeline_id in own}
    if rule_id not in there:
        raise NotFound(f"there is no rule {rule_id!r}; the rules are {', '.join(there) or 'none so far'}")
    return there[rule_id]


def rule_of(catalog: Catalog, pipeline: Pipeline) -> IngestRule:
    return next(rule for rule in catalog.rules.values() if rule.pipeline_id == pipeline.id)


def change_rule(catalog: Catalog, rule_id: str, change: Callable[[IngestRule], IngestRule], now: datetime) -> Catalog:
    """Raises:
    NotFound: the rule does not exist.
    InvalidArgument: as `change`.
    """
    before = rule_named(catalog, rule_id)
    after = change(before)
    if after == before:
        return catalog
    after = replace(after, updated_at=behind(before.updated_at, now))
    return replace(catalog, rules={**catalog.rules, rule_id: after})


def drop_pipeline(catalog: Catalog, pipeline_id: str) -> Catalog:
    """Removes a pipeline and its rule. Its table, if it still exists, is a manual one then.

    Raises:
        NotFound: the pipeline does not exist.
        FailedPrecondition: its table has no schema yet: nothing else could ever give it one.
    """
    pipeline = catalog.pipelines.get(pipeline_id)
    if pipeline is None:
        raise NotFound(f"there is no pipeline {pipeline_id!r}; there are {', '.join(catalog.pipelines) or 'none so far'}")
    blank = catalog.blanks.get(pipeline.table)
    if blank is not None and blank.id == pipeline.table_id:
        raise FailedPrecondition(
            f"{pipeline.table} has no schema yet, and only its pipeline can give it one: drop the table first"
        )
    pipelines = {id_: one for id_, one in catalog.pipelines.items() if id_ != pipeline_id}
    rules = {id_: rule for id_, rule in catalog.rules.items() if rule.pipeline_id != pipeline_id}
    return replace(catalog, pipelines=pipelines, rules=rules)


def live_pipelines(catalog: Catalog) -> list[Pipeline]:
    """The pipelines whose table exists, with or without a schema, in the order of the catalog."""
    there = {table.id for table in (*catalog.tables.values(), *catalog.blanks.values()) if not table.dropping}
    return [one for one in catalog.pipelines.values() if one.table_id in there]
