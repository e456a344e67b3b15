"""The check of each rule: no object is rejected. Its table has the newest of those that are, with the error.

No `from __future__ import annotations`: Dagster reads the type of the context.
"""

import dagster as dg

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.assets.rules import live_pipelines, rule_key
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.resources.lakehouse import LAKE, lake_of

NO_REJECTS = "no_rejects"

_DESCRIPTION = (
    "Every object that the rule took could be read. A reject stands until its object is read again: uploaded anew, or named."
)
_SHOWN = 20


def build_reject_checks(mount: Mount, catalog: Catalog) -> list[dg.AssetChecksDefinition]:
    return [_check(mount, pipeline.table) for pipeline in live_pipelines(catalog)]


def _check(mount: Mount, table: TableName) -> dg.AssetChecksDefinition:
    key = rule_key(mount, table)

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
        asset_key=rule_key(mount, table),
        check_name=NO_REJECTS,
        passed=not rejects,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{counted} cannot be read; all others are taken" if rejects else "no object is rejected",
        metadata={"rejects": dg.MetadataValue.int(len(rejects)), **({"worst": table_value(shown)} if shown else {})},
    )
