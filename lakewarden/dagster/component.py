"""A warehouse as a component: `dg scaffold defs lakewarden.dagster.WarehouseComponent NAME`, and no Python."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, Field

from lakewarden.dagster.definitions import build_definitions
from lakewarden.dagster.mount import Pools
from lakewarden.dagster.orchestration.alerts import Webhook
from lakewarden.dagster.orchestration.schedules import SURVEY_CRON, Surveys
from lakewarden.dagster.spark_session import SparkResource

_WAREHOUSE = "URI of the warehouse: a directory, or s3://, gs://, abfss://. No credentials in it. It need not exist yet."
_PREFIX = (
    "In front of every asset key, and of the names of jobs, sensors, schedules, resources and partitions."
    " Different for each warehouse of a deployment; empty: asset keys are [namespace, table]."
)


class ScaffoldParameters(BaseModel):
    """What `dg scaffold defs` takes."""

    warehouse: str = Field("./warehouse", description=_WAREHOUSE)
    key_prefix: str | None = Field(None, description="In front of every name; by default the name of the new directory.")


class WarehouseScaffolder(dg.Scaffolder[ScaffoldParameters]):
    """Writes a component whose key prefix is its directory's name, so that two of them do not clash; and, for the first of a
    project, Dagster's settings."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParameters]:
        return ScaffoldParameters

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParameters]) -> None:
        prefix = request.params.key_prefix
        if prefix is None:
            prefix = re.sub("[^A-Za-z0-9_]", "_", request.target_path.name)
        attributes = {"warehouse": request.params.warehouse, "key_prefix": [prefix] if prefix else []}
        scaffold_component(request, attributes)
        if request.project_root is not None:
            _write_settings(request.project_root / "dagster.yaml")


_SHIPPED = Path(__file__).with_name("dagster.yaml")
_STORAGE = re.compile(r"^# Dagster's own SQLite.*\nstorage:\n(?: .*\n)+", re.MULTILINE)
"""Of the shipped settings: a project's storage is its own affair."""
_HEAD = """\
# Dagster's settings for this project: the queue's limits, and the launcher that notices runs without a process. `dg dev` reads
# this file where DAGSTER_HOME is not set; else it belongs there.
"""


def _write_settings(place: Path) -> None:
    """Gives the project what its runs need of Dagster's instance. Settings that are there already stay as they are."""
    if place.exists():
        sys.stdout.write(f"{place.name} stays as it is: its queue and launcher should be those of {_SHIPPED}\n")
        return
    shipped = _SHIPPED.read_text()
    place.write_text(_HEAD + _STORAGE.sub("", shipped[shipped.index("telemetry:") :]))


@dg.scaffold_with(WarehouseScaffolder)
class WarehouseComponent(dg.Component, dg.Model, dg.Resolvable):
    """A Lakewarden warehouse: its tables as assets, their users as partitions, and what keeps them healthy: jobs, sensors,
    schedules and checks.

    The tables are read when the code location loads; `catalog_sensor` reloads it when there are new ones.
    """

    warehouse: str = Field(description=_WAREHOUSE, examples=["s3://lake/prod", "{{ env.LAKEWARDEN_WAREHOUSE }}"])
    key_prefix: list[str] = Field(default_factory=list, description=_PREFIX, examples=[["eu"]])
    group: str | None = Field(default=None, description="The group of all assets; without it, one for each namespace.")
    owners: list[str] = Field(
        default_factory=list, description="Owners of all assets: e-mail addresses, or team:name.", examples=[["team:data"]]
    )
    spark_pool: str | None = Field(default=None, description="The concurrency pool of operations that may start a JVM.")
    tables_pool: str = Field(default="tables", description="The concurrency pool of the tables' assets.")
    checks_pool: str = Field(default="checks", description="The concurrency pool of the tables' checks.")
    spark_config: dict[str, str] = Field(
        default_factory=dict, description="Spark settings by their own names; they override lakewarden.toml."
    )
    alert_webhook: str | None = Field(
        default=None,
        description="URL that gets a JSON body for every run that failed for good, and every check that turned failed."
        " Take a secret one from the environment.",
        examples=["{{ env.ALERT_WEBHOOK }}"],
    )
    expectations: dict[str, str] | None = Field(
        default=None,
        description="Files of Great Expectations' suites by the names of their tables: beside this file, or below the working"
        " directory. By default those in expectations/ of the working directory.",
        examples=[{"chat.messages": "expectations/chat.messages.json"}],
    )

    surveys: list[str] = Field(
        default_factory=list,
        description="Places with Delta tables that others wrote, by URI: each is an asset that looks at them and writes nothing"
        " there, with a check that fails where one is damaged.",
        examples=[["s3://lake/others"]],
    )
    survey_cron: str = Field(default=SURVEY_CRON, description="When all of them are looked at, in UTC.")

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(
            tags=["delta lake", "lakehouse", "maintenance"],
            produces=["asset", "asset_check", "job", "schedule", "sensor", "resource"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # Dagster's signature
        return build_definitions(
            self.warehouse,
            key_prefix=self.key_prefix,
            group=self.group,
            owners=self.owners,
            pools=Pools(spark=self.spark_pool, tables=self.tables_pool, checks=self.checks_pool),
            spark=SparkResource(spark_config=self.spark_config),
            on_failure=Webhook(self.alert_webhook) if self.alert_webhook else None,
            expectations=_found_from(context.path, self.expectations),
            surveys=Surveys(self.surveys, self.survey_cron),
        )


def _found_from(folder: Path, files: dict[str, str] | None) -> dict[str, Path] | None:
    """The same, those that are in the folder by their places there."""
    if files is None:
        return None
    return {table: beside if (beside := folder / file).exists() else Path(file) for table, file in files.items()}
