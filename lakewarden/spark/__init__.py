"""Everything that needs Spark: its session, jobs over scopes, and the data sources `lakewarden` and `lakewarden_kafka`.

Imports maintenance and below; `cluster.py` is what the rooms below get of it. Begin with `session.py` and `data_source.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.base.settings import Settings
    from lakewarden.spark.session import SparkSession


def register(spark: SparkSession, warehouse: str | os.PathLike[str], settings: Settings | None = None) -> None:
    """Makes `format("lakewarden")` read and write this warehouse's tables in a session (docs/spark.md), and
    `format("lakewarden_kafka")` read topics (docs/kafka.md).

    Args:
        warehouse: its URI.
        settings: used instead of `lakewarden.toml` and the environment.

    Raises:
        NotFound: there is no warehouse.
    """
    from lakewarden.spark.data_source import register as register_source
    from lakewarden.spark.kafka import register as register_topics  # tasks of other jobs import this package too

    register_source(spark, os.fspath(warehouse), settings)
    register_topics(spark)
