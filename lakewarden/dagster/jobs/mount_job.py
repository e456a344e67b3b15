"""A job as one warehouse's: with its name, its tags, its pool and its resources."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from lakewarden.dagster.jobs.runs.tags import SLOT, SPARK
from lakewarden.dagster.mount import Mount


def mounted(job: dg.JobDefinition, mount: Mount, resources: Mapping[str, object]) -> dg.JobDefinition:
    """The job over the warehouse; the name of its op, and so the form of the launchpad, is the same for every warehouse."""
    (op,) = job.graph.node_defs
    assert isinstance(op, dg.OpDefinition)
    ours = _in_pool(op, mount) if job.tags[SLOT] == SPARK else op
    graph = dg.GraphDefinition(
        mount.named(job.name), node_defs=[ours], dependencies={dg.NodeInvocation(ours.name, alias=op.name): {}}
    )
    return graph.to_job(
        description=job.description,
        resource_defs=resources,
        executor_def=dg.in_process_executor,
        tags={**job.tags, **mount.tags},
    )


def mounted_own(job: dg.JobDefinition, mount: Mount, resources: Mapping[str, object]) -> dg.JobDefinition:
    """A job of the deployment's own over the warehouse: its ops take `lake`, `mount` and `spark`, as those of the library do."""
    return job.graph.to_job(
        mount.named(job.name),
        description=job.description,
        resource_defs=resources,
        config=job.config_mapping or job.run_config,
        executor_def=dg.in_process_executor,
        hooks=job.hook_defs,
        partitions_def=job.partitions_def,
        tags={**job.tags, **mount.tags},
    )


def _in_pool(op: dg.OpDefinition, mount: Mount) -> dg.OpDefinition:
    """The op with the warehouse's pool, as a definition of its own: a deployment has each name once."""
    return dg.OpDefinition(
        compute_fn=op.compute_fn,
        name=mount.named(op.name),
        description=op.description,
        config_schema=op.config_schema,
        required_resource_keys=set(op.required_resource_keys),
        tags=op.tags,
        retry_policy=op.retry_policy,
        pool=mount.pools.spark,
    )
