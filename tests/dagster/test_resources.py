"""The resources: a plain Lakehouse where somebody asks for one, and a Spark session only where one is needed."""

import dagster as dg
from pyspark.sql import SparkSession

from lakewarden.client import Lakehouse
from lakewarden.dagster.lakehouse import resources_of
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.spark_session import SparkResource
from tests.fixtures.chat import make_chat
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER


def test_user_code_gets_a_plain_lakehouse(warehouse_uri: str) -> None:
    make_chat(warehouse_uri)

    @dg.op
    def look(lake: dg.ResourceParam[Lakehouse]) -> list[str]:
        assert type(lake) is Lakehouse
        return [str(table.name) for table in lake.tables()]

    @dg.job(resource_defs=resources_of(Mount(warehouse_uri)))
    def look_job() -> None:
        look()

    assert look_job.execute_in_process().output_for_node("look") == ["chat.messages", "chat.rooms"]


def test_spark_starts_at_first_use_and_a_session_of_others_stays(spark: SparkSession) -> None:
    resource = SparkResource(spark_config={"spark.sql.shuffle.partitions": 3})
    assert resource._cluster is None
    assert resource.spark_session is spark
    resource.teardown_after_execution(dg.build_init_resource_context())
    assert spark.range(3).count() == 3, "it was not this resource's to stop"


def test_further_spark_settings_go_over_our_own() -> None:
    settings = SparkResource(spark_config={"spark.sql.shuffle.partitions": 3}).settings()
    assert settings.conf["spark.sql.shuffle.partitions"] == "3"
