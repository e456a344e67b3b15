"""The warehouse as a resource: a configured URI, and a plain `Lakehouse`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol, cast

import dagster as dg
from dagster._config.pythonic_config import ConfigurableResourceFactory  # documented as public, though its module is private
from pydantic import Field

from lakewarden.dagster.mount import Mount
from lakewarden.dagster.resources.alive import alive
from lakewarden.dagster.resources.spark import SparkResource
from lakewarden.lakehouse import Lakehouse

LAKE = "lake"
SPARK = "spark"
MOUNT = "mount"


class LakehouseResource(ConfigurableResourceFactory[Lakehouse]):
    """The warehouse of this code location. Forms need not name it."""

    # Opened for a run or a tick, and closed at its end. Declared as `lake: dg.ResourceParam[Lakehouse]`, so that user code
    # gets the library's own object, without Dagster. The docstring stands in every form.

    warehouse: str = Field(description="URI of the warehouse: a directory, or s3://, gs://, abfss://. No credentials in it.")
    spark: SparkResource

    def create_resource(self, context: dg.InitResourceContext) -> Lakehouse:
        return Lakehouse.open(self.warehouse, spark=lambda: self.spark.spark_session)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Lakehouse]:
        with _sign_of_life(context), self.create_resource(context) as lake:
            yield lake


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


class HasResources(Protocol):
    """Any of Dagster's contexts."""

    @property
    def resources(self) -> object: ...


def lake_of(context: HasResources, mount: Mount) -> Lakehouse:
    """The warehouse, where the resources of several stand beside each other: in sensors, schedules, assets and checks."""
    return cast("Lakehouse", getattr(context.resources, mount.named(LAKE)))


def spark_of(context: HasResources, mount: Mount) -> SparkResource:
    return cast("SparkResource", getattr(context.resources, mount.named(SPARK)))


def shared_resources(mount: Mount, resources: Mapping[str, object]) -> dict[str, object]:
    """The resources under names that no other warehouse of the deployment has."""
    return {mount.named(name): resources[name] for name in (SPARK, LAKE)}
