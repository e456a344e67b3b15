"""The upload sensors: one for each pipeline, which starts a run over what is new in its source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice, takewhile

import dagster as dg
import msgspec

from lakewarden.base.quantities import in_units
from lakewarden.catalog.changes.engines import DISABLED, is_active
from lakewarden.catalog.changes.pipelines import live_pipelines, rule_of
from lakewarden.catalog.model import Catalog, Pipeline
from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import table_value
from lakewarden.dagster.assets.rules import source_key, source_uri
from lakewarden.dagster.jobs.runs import IN_VAIN, OBJECTS, OPERATION, TABLE, UNDER_WAY, ended_at, subject_tags
from lakewarden.dagster.mount import INGEST, Mount
from lakewarden.dagster.orchestration.evaluations import build_sensor
from lakewarden.dagster.orchestration.flushing import LOOK_BACK, SensorCursor, wait_after
from lakewarden.dagster.orchestration.runs import shown
from lakewarden.storage.sources import SourceObject

# Looks through a pipeline's source in rounds: how much a tick lists is bounded, however many objects there are.
#
# A tick goes on with the round from where the last one had come, and looks behind the greatest name that was seen, where new
# names mostly are. Pure but for the listing: what was taken, the pipeline's ledger says.

LISTED_PER_TICK = 10_000
"""Objects that a tick lists, ten requests of an object store: a million uploads are one round of a hundred ticks."""

Listing = Callable[[str], Iterable[SourceObject]]
"""The objects behind a key, in the order of their keys; all of them behind the empty one."""


class Sums(msgspec.Struct, frozen=True):
    """Of objects: how many, their bytes, and when the newest was written, in seconds since 1970."""

    objects: int = 0
    bytes: int = 0
    newest: float = 0.0

    def with_all(self, found: Iterable[SourceObject]) -> Sums:
        sums = self
        for one in found:
            sums = Sums(sums.objects + 1, sums.bytes + one.size, max(sums.newest, one.modified.timestamp()))
        return sums


class Cursor(SensorCursor, frozen=True):
    """Where a sensor has come to."""

    after: str = ""
    """The last key of the round so far; empty at its begin."""
    greatest: str = ""
    """The greatest key that was seen."""
    so_far: Sums = Sums()
    """Of this round."""
    whole: Sums = Sums()
    """Of the last round that was completed."""
    reported: str = ""
    """Which new objects were reported last, so that they are reported once."""


@dataclass(frozen=True)
class ArrivalsLook:
    """What a tick saw."""

    objects: tuple[SourceObject, ...]
    cursor: Cursor
    """For the next tick."""
    is_whole: bool
    """Whether a round was completed."""


def look(listing: Listing, cursor: Cursor, most: int = LISTED_PER_TICK) -> ArrivalsLook:
    """Lists at most this many objects: half of them next in the round, and half behind the greatest name."""
    share = most // 2
    next_ones = tuple(islice(listing(cursor.after), share))
    sums = cursor.so_far.with_all(next_ones)
    if len(next_ones) < share:
        greatest = max((cursor.greatest, *(one.key for one in next_ones)))
        return ArrivalsLook(next_ones, Cursor(greatest=greatest, whole=sums, reported=cursor.reported), is_whole=True)
    after = next_ones[-1].key
    ahead = tuple(islice(listing(cursor.greatest), share)) if cursor.greatest > after else ()
    greatest = max((cursor.greatest, after, *(one.key for one in ahead)))
    return ArrivalsLook((*next_ones, *ahead), Cursor(after, greatest, sums, cursor.whole, cursor.reported), is_whole=False)


OBJECTS_PER_RUN = 1_000
"""Of which a run has the keys in its config. The next tick continues when the run has ended."""

SECONDS = 30

_RUNS_SEEN = 20
_SHOWN = 20


def build_upload_sensors(mount: Mount, catalog: Catalog) -> list[dg.SensorDefinition]:
    return [_sensor(mount, pipeline) for pipeline in live_pipelines(catalog)]


def _sensor(mount: Mount, pipeline: Pipeline) -> dg.SensorDefinition:
    return build_sensor(
        mount,
        partial(upload_sensor, pipeline=pipeline),
        "ingest_job",
        seconds=SECONDS,
        serves=[mount.rule_key(pipeline.table)],
        name=mount.table_named("upload_sensor", pipeline.table),
        said=f"Ingests into {pipeline.table} what is new in {pipeline.source}: in batches, one run at a time.",
    )


def upload_sensor(
    context: dg.SensorEvaluationContext, lake: Lakehouse, mount: Mount, pipeline: Pipeline
) -> dg.SensorResult | dg.SkipReason:
    """Lists a bounded part of the source, and requests a run over the objects that the rule takes and the ledger does not hold.

    As long as some of them are new, the cursor stays: the ledger says what a run took, whatever became of it.
    """
    failed = _failed_in_vain(context.instance, mount, pipeline, lake.warehouse.clock())
    waits = _why_not(context.instance, lake, mount, pipeline, failed)
    if waits:
        return dg.SkipReason(waits)
    name, before = str(pipeline.table), Cursor.read(context.cursor)
    seen = look(lambda after: lake.pipelines.listing(name, after), before, LISTED_PER_TICK)
    new = lake.pipelines.untaken(name, seen.objects)
    if not new:
        context.update_cursor(seen.cursor.text)
        return dg.SkipReason(f"nothing new: looked at {len(seen.objects):,} objects in {source_uri(mount, pipeline.source)}")
    batch = _digest(new)
    whole = seen.cursor.whole if seen.is_whole else before.whole
    return dg.SensorResult(
        run_requests=[_request(pipeline, new[:OBJECTS_PER_RUN], f"{batch}-{len(failed)}")],
        asset_events=[] if batch == before.reported else [_arrival(mount, pipeline, new, whole)],
        cursor=msgspec.structs.replace(before, whole=whole, reported=batch).text,
    )


def _why_not(
    instance: dg.DagsterInstance, lake: Lakehouse, mount: Mount, pipeline: Pipeline, failed: Sequence[dg.RunRecord]
) -> str:
    """Why no run starts now, whatever is in the source; empty where one may."""
    catalog = lake.warehouse.catalog.read()
    if pipeline.id not in {one.id for one in live_pipelines(catalog)}:
        return f"{pipeline.table} was dropped: its pipeline takes nothing any more"
    if not is_active(catalog, pipeline.table):
        return f"{DISABLED}: {pipeline.table.namespace}"
    rule = rule_of(catalog, catalog.pipelines[pipeline.id])
    if not rule.enabled:
        return f"rule {rule.id} is disabled: ALTER RULE {rule.id} SET ENABLED = true"
    if active := _runs(instance, mount, pipeline, UNDER_WAY):
        return f"an ingest is under way: {shown(active)}"
    now = lake.warehouse.clock()
    if failed and now < (again := ended_at(failed[0]) + wait_after(len(failed))):
        return f"{len(failed)} runs failed, the last of them {failed[0].dagster_run.run_id[:8]}: again at {again:%H:%M:%S} UTC"
    return ""


def _runs(
    instance: dg.DagsterInstance,
    mount: Mount,
    pipeline: Pipeline,
    statuses: Sequence[dg.DagsterRunStatus],
    since: datetime | None = None,
) -> Sequence[dg.RunRecord]:
    """The newest runs that ingest into the table, however they were started; the newest first."""
    tags = {OPERATION: INGEST, TABLE: str(pipeline.table), **mount.tags}
    wanted = dg.RunsFilter(tags=tags, statuses=list(statuses), updated_after=since)
    return instance.get_run_records(wanted, limit=_RUNS_SEEN)


def _failed_in_vain(instance: dg.DagsterInstance, mount: Mount, pipeline: Pipeline, now: datetime) -> Sequence[dg.RunRecord]:
    """The runs that failed since the last one that succeeded, the newest first."""
    ended = _runs(instance, mount, pipeline, [*IN_VAIN, dg.DagsterRunStatus.SUCCESS], now - LOOK_BACK)
    return list(takewhile(lambda one: one.dagster_run.status in IN_VAIN, ended))


def _digest(objects: Sequence[SourceObject]) -> str:
    content = "\n".join(f"{one.key}\t{one.etag}" for one in objects)
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def _request(pipeline: Pipeline, objects: Sequence[SourceObject], key: str) -> dg.RunRequest:
    config = {"table": str(pipeline.table), "objects": [one.key for one in objects], "only_new": True}
    return dg.RunRequest(
        run_key=key,
        run_config={"ops": {INGEST: {"config": config}}},
        tags={**subject_tags(config), OBJECTS: str(len(objects))},
    )


def _arrival(mount: Mount, pipeline: Pipeline, new: Sequence[SourceObject], whole: Sums) -> dg.AssetMaterialization:
    """What arrived in the source, and what all of it is as of the last look through it."""
    came = Sums().with_all(new)
    return dg.AssetMaterialization(
        source_key(mount, pipeline.source),
        description=f"{came.objects:,} new objects for {pipeline.table}, {in_units(came.bytes)}",
        metadata={
            "new/objects": came.objects,
            "new/bytes": came.bytes,
            "objects": whole.objects,
            "bytes": whole.bytes,
            "newest": dg.MetadataValue.timestamp(max(came.newest, whole.newest)),
            "new": table_value({"object": one.key, "size": in_units(one.size)} for one in new[:_SHOWN]),
        },
    )
