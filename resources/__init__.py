"""The warehouse and its Spark session as resources. The code is `lakewarden/dagster/resources/`."""

from __future__ import annotations

from lakewarden.dagster.resources.lakehouse import LakehouseResource
from lakewarden.dagster.resources.spark import SparkResource

__all__ = ["LakehouseResource", "SparkResource"]
