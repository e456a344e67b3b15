"""The warehouse of this code location: a configured URI, and a plain `Lakehouse` as the resource."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import dagster as dg
from dagster._config.pythonic_config import ConfigurableResourceFactory  # documented as public, though its module is private
from pydantic import Field

from lakewarden.clock import random_id, system_clock
from lakewarden.connection import Location
from lakewarden.dagster.resources.alive import alive
from lakewarden.dagster.resources.spark import SparkResource
from lakewarden.lakehouse import Lakehouse
from lakewarden.settings import load_settings
from lakewarden.storage.open import open_store
from lakewarden.warehouse import STATE, Warehouse

VARIABLE = "LAKEWARDEN_WAREHOUSE"
DEFAULT = "./warehouse"


class LakehouseResource(ConfigurableResourceFactory[Lakehouse]):
    """Opens the warehouse for a run or a tick, and closes it at the end.

    Declare it as `lake: dg.ResourceParam[Lakehouse]`: user code gets the library's own object, without Dagster.
    """

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


def configured_warehouse() -> str:
    """The configuration of the resource: the variable's name, so that the UI shows it, or the default."""
    return dg.EnvVar(VARIABLE) if VARIABLE in os.environ else DEFAULT


def warehouse_at_load() -> Warehouse | None:
    """The warehouse of the code location; None if it does not exist yet. Never creates it."""
    uri = os.environ.get(VARIABLE, DEFAULT)
    if not open_store(Location(uri).below(STATE)).list(""):
        return None
    return Warehouse.open(uri, load_settings(os.environ), system_clock, random_id)
