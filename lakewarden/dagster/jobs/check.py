"""`check_job`: the checks of every table, in one run."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakewarden.dagster.jobs.tags import job_tags


def build_check_job() -> UnresolvedAssetJobDefinition:
    return dg.define_asset_job(
        "check_job",
        selection=dg.AssetSelection.all_asset_checks(),
        executor_def=dg.in_process_executor,
        tags=job_tags("check"),
        description="Checks some scopes of every table: one row per key, columns as declared, log and table agree.",
    )
