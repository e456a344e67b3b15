"""Builds the assets of pipelines: each source as an external asset, and each rule as what takes objects from it.

The lineage is source, rule, table. A rule edited with ALTER RULE, and a new pipeline, change the catalog: its sensor reloads
the code location, as for new tables.

No `from __future__ import annotations` where Dagster reads a signature.
"""

import re
from collections.abc import Sequence

import dagster as dg

from lakewarden.base.quantities import grouped
from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.pipelines import live_pipelines, rule_of
from lakewarden.catalog.model import Catalog, IngestRule, Pipeline
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.lakehouse import LAKE, lake_of
from lakewarden.dagster.mount import SOURCES, Mount, is_beneath
from lakewarden.storage.location import join

_KINDS = {"file"}


def source_key(mount: Mount, source: str) -> dg.AssetKey:
    """The key of a source: its path, below the warehouse or as a whole. Pipelines of one source share it.

    With a hyphen, which no table's name holds, where a table in a namespace that is called `sources`, or what stands beneath
    one, could have the same.
    """
    parts = [_spelled(part) for part in source.replace("://", "/").split("/") if part]
    whole = ["file-"] if source.startswith("/") else []
    marked = ["objects-"] if len(parts) == 1 or is_beneath(parts[-1]) else []
    return dg.AssetKey([*mount.key_prefix, SOURCES, *whole, *parts, *marked])


def _spelled(part: str) -> str:
    """As Dagster takes it for names that it makes of keys."""
    return re.sub("[^A-Za-z0-9_.-]", lambda sign: f"-{ord(sign[0]):x}-", part)


def source_uri(mount: Mount, source: str) -> str:
    """Where the source is, as people find it."""
    return source if "://" in source or source.startswith("/") else join(mount.uri, source)


def build_source_specs(mount: Mount, catalog: Catalog) -> list[dg.AssetSpec]:
    """An external asset for each place that pipelines take objects from."""
    by_key = grouped(live_pipelines(catalog), lambda pipeline: source_key(mount, pipeline.source))
    return [_source_spec(mount, key, pipelines) for key, pipelines in by_key.items()]


def _source_spec(mount: Mount, key: dg.AssetKey, pipelines: Sequence[Pipeline]) -> dg.AssetSpec:
    tables = ", ".join(str(one.table) for one in pipelines)
    return dg.AssetSpec(
        key,
        description=f"Where objects are uploaded for {tables}. An event says what arrived, as its sensor saw it.",
        kinds=_KINDS,
        group_name=mount.group_of(pipelines[0].table),
        owners=mount.owners,
        metadata={"dagster/uri": source_uri(mount, pipelines[0].source)},
    )


def rule_spec(mount: Mount, catalog: Catalog, pipeline: Pipeline) -> dg.AssetSpec:
    """What the pipeline's rule takes from its source into its table."""
    rule = rule_of(catalog, pipeline)
    return dg.AssetSpec(
        mount.rule_key(pipeline.table),
        deps=[source_key(mount, pipeline.source)],
        description=_description(pipeline, rule),
        kinds={pipeline.template, *_KINDS},
        group_name=mount.group_of(pipeline.table),
        owners=mount.owners,
        metadata={
            "rule": rule.id,
            "pipeline": pipeline.id,
            "template": pipeline.template,
            "dagster/uri": source_uri(mount, pipeline.source),
            "globs": ", ".join(rule.globs),
            "excludes": ", ".join(rule.excludes),
            "mime_types": ", ".join(rule.mime_types),
            "min_size": rule.min_size,
            **({} if rule.max_size is None else {"max_size": rule.max_size}),
            "enabled": rule.enabled,
        },
    )


def _description(pipeline: Pipeline, rule: IngestRule) -> str:
    stopped = "" if rule.enabled else f" The rule is disabled: `ALTER RULE {rule.id} SET ENABLED = true`."
    return (
        f"Ingests objects that match {', '.join(f'`{glob}`' for glob in rule.globs)} into {pipeline.table}, each once, by the"
        f" template {pipeline.template}.{stopped}"
    )


# The check of each rule: no object is rejected. Its table has the newest of those that are, with the error.

NO_REJECTS = "no_rejects"

_DESCRIPTION = (
    "Every object that the rule took could be read. A reject stands until its object is read again: uploaded anew, or named."
)
_SHOWN = 20


def build_reject_checks(mount: Mount, catalog: Catalog) -> list[dg.AssetChecksDefinition]:
    return [_check(mount, pipeline.table) for pipeline in live_pipelines(catalog)]


def _check(mount: Mount, table: TableName) -> dg.AssetChecksDefinition:
    key = mount.rule_key(table)

    @dg.asset_check(
        name=NO_REJECTS, asset=key, description=_DESCRIPTION, required_resource_keys={mount.named(LAKE)}, pool=mount.pools.checks
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return rejects_of(mount, lake_of(context, mount), table)

    return check


def rejects_of(mount: Mount, lake: Lakehouse, table: TableName) -> dg.AssetCheckResult:
    """A warning as long as an object stands rejected: the others are taken all the same."""
    rejects = lake.pipelines.standing_rejects(str(table))
    counted = "1 object" if len(rejects) == 1 else f"{len(rejects):,} objects"
    shown = [{"object": one.object, "error": one.error, "at": f"{one.at:%Y-%m-%d %H:%M:%S}"} for one in rejects[:_SHOWN]]
    return dg.AssetCheckResult(
        asset_key=mount.rule_key(table),
        check_name=NO_REJECTS,
        passed=not rejects,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{counted} cannot be read; all others are taken" if rejects else "no object is rejected",
        metadata={"rejects": len(rejects), **({"worst": table_value(shown)} if shown else {})},
    )
