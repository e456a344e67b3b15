"""Stores asset events in batches.

Stored alone, an event costs 7 to 25 ms on SQLite and 24 to 29 ms on Postgres: for a thousand scopes that is more than the flush
itself. Dagster stores the outputs of a partitioned step in batches; this does the same. The call is not public, so it
is isolated here, and a test fails when Dagster changes it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import dagster as dg

from lakewarden.base.clock import NewId, random_id
from lakewarden.base.quantities import portions
from lakewarden.dagster.internals import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION, DagsterEventBatchMetadata

BATCH = 500
"""Events in a batch: enough to make each cheap, few enough that a crash loses few."""

VARIABLE = "DAGSTER_EVENT_BATCH_SIZE"
"""Dagster reads this at every event: the most events of a batch that it holds back. Unset, it stores each alone."""

BOOKED = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""On an output, Dagster's own mark of a step that logged its events itself: it then adds none, and what is downstream runs."""

AssetEvent = dg.AssetMaterialization | dg.AssetObservation


def log_events(context: dg.OpExecutionContext, events: Sequence[AssetEvent], new_id: NewId = random_id) -> None:
    """Logs events of *one* asset: Postgres storage records the newest event only for the asset of a batch's last event."""
    # Here, since it imports SQLAlchemy, which loading the definitions does not need.
    from lakewarden.dagster.jobs.event_log.packed_storage import relaxed

    os.environ.setdefault(VARIABLE, str(BATCH))
    with relaxed(context.instance.event_log_storage, context.run_id):
        for kind in (dg.AssetMaterialization, dg.AssetObservation):  # a batch has events of one kind
            for batch in portions((event for event in events if isinstance(event, kind)), lambda _: 1, BATCH):
                _log_batch(context, batch, new_id())


def _log_batch(context: dg.OpExecutionContext, batch: Sequence[AssetEvent], batch_id: str) -> None:
    try:
        step = context.get_step_execution_context()
        for position, event in enumerate(batch, start=1):
            metadata = DagsterEventBatchMetadata(batch_id, position == len(batch))
            if isinstance(event, dg.AssetMaterialization):
                dg.DagsterEvent.asset_materialization(step, event, metadata)
            else:
                dg.DagsterEvent.asset_observation(step, event, metadata)
    except (AttributeError, TypeError):
        # Dagster's internals have changed: the public call is slower, and correct.
        for event in batch:
            context.log_event(event)
