"""`survey_job`: looks at all surveyed places, in one run."""

from collections.abc import Sequence

import dagster as dg

from lakewarden.dagster.internals import UnresolvedAssetJobDefinition
from lakewarden.dagster.jobs.runs import job_tags
from lakewarden.dagster.mount import Mount


def build_survey_job(mount: Mount, surveyed: Sequence[dg.AssetsDefinition]) -> UnresolvedAssetJobDefinition:
    return dg.define_asset_job(
        mount.named("survey_job"),
        selection=dg.AssetSelection.assets(*surveyed),
        executor_def=dg.in_process_executor,
        tags={**job_tags("survey", -10), **mount.tags},
        description="Looks at Delta tables that others wrote: what is there, what is damaged. Nothing is written there.",
    )
