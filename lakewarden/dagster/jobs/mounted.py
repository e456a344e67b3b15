"""A job as one warehouse's: with its name, its tags and its resources."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from lakewarden.dagster.mount import Mount


def mounted(job: dg.JobDefinition, mount: Mount, resources: Mapping[str, object]) -> dg.JobDefinition:
    """The job over the warehouse; its ops, and so the forms of the launchpad, are the same for every warehouse."""
    return job.graph.to_job(
        name=mount.named(job.name),
        description=job.description,
        resource_defs=resources,
        executor_def=dg.in_process_executor,
        tags={**job.tags, **mount.tags},
    )
