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
from lakewarden.spark.cluster import SparkCluster

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class SparkResource(dg.ConfigurableResource[Any]):
    """Spark's settings are those of lakewarden.toml; forms need not name them."""

    # The docstring stands in every form.

    spark_config: dict[str, Any] = Field(
        default_factory=dict, description="More Spark settings by their own names; they override lakewarden.toml."
    )

    _cluster: SparkCluster | None = PrivateAttr(default=None)

    @property
    def spark_session(self) -> SparkSession:
        """The session of this process, started with these settings if there is none."""
        self._cluster = self._cluster or SparkCluster(self.settings(), None)
        return self._cluster.session()

    @property
    def spark_context(self) -> SparkContext:
        return self.spark_session.sparkContext

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Stops the session that this resource started; leaves one that was active before."""
        if self._cluster is not None:
            self._cluster.close()

    def settings(self) -> SparkSettings:
        spark = load_settings(os.environ).spark
        further = {key: str(value) for key, value in self.spark_config.items()}
        return msgspec.structs.replace(spark, conf={**spark.conf, **further})
