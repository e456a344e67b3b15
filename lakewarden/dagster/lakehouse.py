"""The warehouse as a resource: a configured URI, and a plain `Lakehouse`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol, cast

import dagster as dg
from pydantic import Field

from lakewarden.base.clock import NewId, random_id
from lakewarden.base.recent import Recent
from lakewarden.base.settings import load_settings
from lakewarden.client import Lakehouse
from lakewarden.dagster.alive import alive
from lakewarden.dagster.internals import ConfigurableResourceFactory
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.spark_session import SparkResource

LAKE = "lake"
SPARK = "spark"
MOUNT = "mount"


class LakehouseResource(ConfigurableResourceFactory[Lakehouse]):
    """The warehouse of this code location. Forms need not name it."""

    # Opened for a run, and closed at its end. Declared as `lake: dg.ResourceParam[Lakehouse]`, so that user code
    # gets the library's own object, without Dagster. The docstring stands in every form.

    warehouse: str = Field(description="URI of the warehouse: a directory, or s3://, gs://, abfss://. No credentials in it.")
    spark: SparkResource

    def create_resource(self, context: dg.InitResourceContext) -> Lakehouse:
        new_id = ids_of(context.run.run_id) if context.run else random_id
        return Lakehouse.open(self.warehouse, spark=lambda: self.spark.spark_session, new_id=new_id)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Lakehouse]:
        with _sign_of_life(context), self.create_resource(context) as lake, _noted(lake, context.run):
            yield lake


_SHORT_SECONDS = 10.0
_SHORT = 8
"""Digits of a run's id that Dagster's pages show, and digits of a random id at the end of a job's."""


def ids_of(run_id: str, new_id: NewId = random_id) -> NewId:
    """Random ids that begin as the run's own, so the id of a job, and each of its commits, names the run that it was done in."""
    return lambda: begin_of(run_id) + new_id()[_SHORT:]


def begin_of(run_id: str) -> str:
    """The beginning of a run's id."""
    return run_id[:_SHORT]


def run_of(job_id: str) -> str:
    """The beginning of the id of the run that the job was done in; of a job outside of Dagster, of no run."""
    return job_id.rpartition("-")[2]


def _noted(lake: Lakehouse, run: dg.DagsterRun | None) -> AbstractContextManager[None]:
    """A run that takes its time is in `system.cluster`; a tick is short."""
    return lake.noted("dagster run", f"{run.job_name} {begin_of(run.run_id)}", after=_SHORT_SECONDS) if run else nullcontext()


def _sign_of_life(context: dg.InitResourceContext) -> AbstractContextManager[None]:
    """A run beats while it has the warehouse; a tick has no run."""
    run = context.run
    return alive(context.instance, run.run_id) if run and context.instance else nullcontext()


def resources_of(mount: Mount, warehouse: str | None = None, spark: SparkResource | None = None) -> dict[str, object]:
    """What the ops of a mounted job take, by the names of their parameters.

    Args:
        warehouse: the URI as configured, where that is not the mount's own: an `EnvVar` shows its name in the pages.
        spark: used instead of a session of the library's own settings.
    """
    session = spark or SparkResource()
    return {SPARK: session, LAKE: LakehouseResource(warehouse=warehouse or mount.uri, spark=session), MOUNT: mount}


def without_forms(resources: Mapping[str, object]) -> dict[str, object]:
    """The same for jobs whose forms show their own fields alone: Dagster fills every form with what its resources take."""
    return {name: _configured(resource) for name, resource in resources.items()}


def _configured(resource: object) -> object:
    if not isinstance(resource, ConfigurableResourceFactory):
        return resource
    definition = resource.get_resource_definition()
    return definition.configured(definition.config_schema.as_field().default_value, config_schema=None)


class HasResources(Protocol):
    """Any of Dagster's contexts."""

    @property
    def resources(self) -> object: ...


def lake_of(context: HasResources, mount: Mount) -> Lakehouse:
    """The warehouse, where the resources of several stand beside each other: in assets and checks."""
    return cast("Lakehouse", getattr(context.resources, mount.named(LAKE)))


def spark_of(context: HasResources, mount: Mount) -> SparkResource:
    return cast("SparkResource", getattr(context.resources, mount.named(SPARK)))


def shared_resources(mount: Mount, resources: Mapping[str, object]) -> dict[str, object]:
    """The resources under names that no other warehouse of the deployment has."""
    return {mount.named(name): resources[name] for name in (SPARK, LAKE)}


@dataclass(frozen=True)
class WarehouseRun:
    """A run of Dagster's that works on a warehouse."""

    context: dg.OpExecutionContext
    lake: Lakehouse
    mount: Mount

    @classmethod
    def of(cls, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, mount: Mount) -> WarehouseRun:
        """The run of an asset or of a check."""
        return cls(context.op_execution_context, lake_of(context, mount), mount)


# The warehouse of sensors and schedules: open in the code server for as long as it ticks, without a resource of Dagster's.
#
# To make a resource, Dagster opens its own storage in each tick, which costs more than most ticks do; and a warehouse that is
# opened in each tick reads again what the one before had read.


def lake_of_tick(context: HasResources, mount: Mount) -> Lakehouse:
    """The warehouse in a sensor or a schedule: a resource that was passed to it, or the one that this process's ticks share."""
    return getattr(context.resources, mount.named(LAKE), None) or lakehouse_of_ticks(mount.uri)


_OPENED_EACH = 300.0
"""Seconds: so late is a warehouse noticed that another one has replaced."""
_SHARED = 16


@dataclass(frozen=True)
class _Opened:
    lake: Lakehouse
    at: float


_opened = Recent[str, _Opened](_SHARED)


def lakehouse_of_ticks(uri: str, monotonic: Callable[[], float] = time.monotonic) -> Lakehouse:
    """The warehouse that ticks of this process share: what one has read, the next does not read again.

    It is opened anew each five minutes, and where the settings changed. The one before is not closed: another thread's tick may
    still use it, and ticks start neither Spark nor worker processes, which alone would have to end.
    """
    settings, now = load_settings(os.environ), monotonic()
    found = _opened.get(uri)
    if found is None or now - found.at > _OPENED_EACH or found.lake.warehouse.settings != settings:
        found = _Opened(Lakehouse.open(uri, settings=settings), now)
        _opened.put(uri, found)
    return found.lake
