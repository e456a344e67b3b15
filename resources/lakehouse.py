"""The warehouse of this code location: a URI by configuration, a plain `Lakehouse` for those who ask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from dagster._config.pythonic_config import ConfigurableResourceFactory  # public by its documentation, not by its place
from pydantic import Field

from lakewarden.clock import random_id, system_clock
from lakewarden.connection import Location
from lakewarden.lakehouse import Lakehouse
from lakewarden.settings import load_settings
from lakewarden.storage.open import open_store
from lakewarden.warehouse import STATE, Warehouse
from resources.spark import SparkResource

VARIABLE = "LAKEWARDEN_WAREHOUSE"
DEFAULT = "./warehouse"


class LakehouseResource(ConfigurableResourceFactory[Lakehouse]):
    """Opens the warehouse for a run or a tick, and closes it at the end.

    Ask for it as `lake: dg.ResourceParam[Lakehouse]`: user code gets the library's own object, nothing of Dagster.
    """

    warehouse: str = Field(description="URI of the warehouse: a directory, or s3://, gs://, abfss://. No credentials in it.")
    spark: SparkResource

    def create_resource(self, context: dg.InitResourceContext) -> Lakehouse:
        return Lakehouse.open(self.warehouse, spark=lambda: self.spark.spark_session)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Lakehouse]:
        with self.create_resource(context) as lake:
            yield lake


def configured_warehouse() -> str:
    """What the resource is configured with: the variable by its name, so that the UI shows that, or the default."""
    return dg.EnvVar(VARIABLE) if VARIABLE in os.environ else DEFAULT


def warehouse_at_load() -> Warehouse | None:
    """The warehouse that the code location is loaded over; None where there is none yet, and none is made."""
    uri = os.environ.get(VARIABLE, DEFAULT)
    if not open_store(Location(uri).below(STATE)).list(""):
        return None
    return Warehouse.open(uri, load_settings(os.environ), system_clock, random_id)
