"""Lakewarden in Dagster: tables as assets, operations as jobs, and the sensors and schedules that start them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

    from lakewarden.dagster.resources.spark import SparkResource

# Every process of Dagster loads the launcher below this package, and needs no more of it: so what is here imports late.


def build_definitions(
    warehouse: str | None = None, *, key_prefix: Sequence[str] = (), group: str | None = None, spark: SparkResource | None = None
) -> dg.Definitions:
    """The definitions of one warehouse. Those of several merge, if their prefixes differ.

    Args:
        warehouse: its URI: a directory, or `s3://bucket/prefix` (also `gs://`, `abfss://`); or an `EnvVar` with it. It need
            not exist yet. Without it, as for the command line: the one that `LAKEWARDEN_WAREHOUSE` names, else `./warehouse`.
        key_prefix: stands in front of every asset key, and of the names of jobs, sensors, schedules, resources and partitions.
            Without it, asset keys are `[namespace, table]`.
        group: the group of all assets; without it, one for each namespace.
        spark: a Spark resource of the deployment's own, instead of one with Lakewarden's settings.

    Raises:
        InvalidArgument: the URI, the prefix or the variable is not valid.
    """
    from lakewarden.dagster import definitions

    return definitions.build_definitions(warehouse, key_prefix=key_prefix, group=group, spark=spark)


__all__ = ["build_definitions"]
