"""The Spark session of a run: started when it is first used, configured as in the library, stopped at the end.

dagster-pyspark has a lazy resource too, which imports PySpark when its class is loaded: in every code server, run and retry.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import dagster as dg
import msgspec
from pydantic import Field, PrivateAttr

from lakewarden.base.setting_sections import SparkSettings
from lakewarden.base.settings import load_settings

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class SparkResource(dg.ConfigurableResource[Any]):
    """Spark's settings are those of lakewarden.toml; forms need not name them."""

    # The docstring stands in every form.

    spark_config: dict[str, Any] = Field(
        default_factory=dict, description="More Spark settings by their own names; they override lakewarden.toml."
    )

    _session: SparkSession | None = PrivateAttr(default=None)
    _started: bool = PrivateAttr(default=False)

    @property
    def spark_session(self) -> SparkSession:
        """The session of this process, started with these settings if there is none."""
        if self._session is None:
            from lakewarden.spark.session import is_running, start_session  # imports PySpark

            self._started = not is_running()
            self._session = start_session(self.settings())
        return self._session

    @property
    def spark_context(self) -> SparkContext:
        return self.spark_session.sparkContext

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Stops the session that this resource started; leaves one that was active before."""
        if self._started and self._session is not None:
            self._session.stop()

    def settings(self) -> SparkSettings:
        spark = load_settings(os.environ).spark
        further = {key: str(value) for key, value in self.spark_config.items()}
        return msgspec.structs.replace(spark, conf={**spark.conf, **further})
