"""`check_job`: the checks of every table, in one run."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakewarden.dagster.jobs.runs.tags import job_tags
from lakewarden.dagster.mount import Mount


def build_check_job(mount: Mount, checks: Sequence[dg.AssetChecksDefinition]) -> UnresolvedAssetJobDefinition:
    """The job over exactly these checks: a deployment may have others."""
    return dg.define_asset_job(
        mount.named("check_job"),
        selection=dg.AssetSelection.checks(*checks),
        executor_def=dg.in_process_executor,
        tags={**job_tags("check", -10), **mount.tags},
        description="Checks some scopes of every table: one row per key, columns as declared, log and table agree.",
    )
