"""The Spark session of a run: dagster-pyspark's lazy resource, configured as in the library, stopped at the end."""

from __future__ import annotations

import os
from typing import Any

import dagster as dg
import msgspec
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr

from lakewarden.settings import SparkSettings, load_settings
from lakewarden.spark.session import is_running, start_session


class SparkResource(LazyPySparkResource):
    """Spark's settings are those of lakewarden.toml; forms need not name them."""

    # The docstring stands in every form.

    spark_config: dict[str, Any] = Field(
        default_factory=dict, description="More Spark settings by their own names; they override lakewarden.toml."
    )

    _started: bool = PrivateAttr(default=False)

    def _init_session(self) -> None:
        if self._spark_session is None:
            self._started = not is_running()
            self._spark_session = start_session(self.settings())

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Stops the session that this resource started; leaves one that was active before."""
        if self._started and self._spark_session is not None:
            self._spark_session.stop()

    def settings(self) -> SparkSettings:
        spark = load_settings(os.environ).spark
        further = {key: str(value) for key, value in self.spark_config.items()}
        return msgspec.structs.replace(spark, conf={**spark.conf, **further})
