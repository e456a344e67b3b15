"""All definitions of one warehouse: its tables as assets, the operations as jobs, and the sensors and schedules.

Also loads without a warehouse, then without assets.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec

import dagster as dg

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.connection import Location
from lakewarden.base.scope import TableName
from lakewarden.base.settings import load_settings
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.operations import SPECS
from lakewarden.dagster.assets.checks import build_table_checks
from lakewarden.dagster.assets.health import build_health_assets
from lakewarden.dagster.assets.rules import build_reject_checks, build_source_specs
from lakewarden.dagster.assets.suite_checks import build_expectation_checks, checks_of
from lakewarden.dagster.assets.suites import Suite, SuiteSource, suites_of
from lakewarden.dagster.assets.surveys import build_survey_assets
from lakewarden.dagster.assets.tables import build_table_specs
from lakewarden.dagster.jobs.check import build_check_job, build_survey_job, check_all_job
from lakewarden.dagster.jobs.ingest import build_rule_assets
from lakewarden.dagster.jobs.materialize import build_table_assets
from lakewarden.dagster.jobs.one_partition import build_partition_jobs
from lakewarden.dagster.jobs.prune import prune_job
from lakewarden.dagster.jobs.queue_job import record_job, run_queued_job
from lakewarden.dagster.jobs.relay import relay_job
from lakewarden.dagster.jobs.restore import build_restore_jobs
from lakewarden.dagster.jobs.runs import SLOT, SPARK
from lakewarden.dagster.lakehouse import resources_of, shared_resources, without_forms
from lakewarden.dagster.mount import Mount, Pools, value_of
from lakewarden.dagster.orchestration.alerts import OnFailure, Webhook, build_alert_sensor, build_check_alert_sensor
from lakewarden.dagster.orchestration.checking import build_check_schedule, build_check_sensor, build_health_sensor
from lakewarden.dagster.orchestration.evaluations import with_automation
from lakewarden.dagster.orchestration.relaying import build_relay_sensor, has_topics
from lakewarden.dagster.orchestration.reloading import build_catalog_sensor
from lakewarden.dagster.orchestration.schedules import Surveys, build_schedules, build_survey_schedule
from lakewarden.dagster.orchestration.sensors import build_sensors
from lakewarden.dagster.orchestration.uploads import build_upload_sensors
from lakewarden.dagster.spark_session import SparkResource
from lakewarden.storage.location import canonical
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import STATE
from lakewarden.tables.warehouse import Warehouse


def mounted(
    job: dg.JobDefinition, mount: Mount, resources: Mapping[str, object], graph: dg.GraphDefinition | None = None
) -> dg.JobDefinition:
    """A job over the warehouse: its ops take `lake`, `mount` and `spark`.

    Args:
        graph: instead of its own.
    """
    return (graph or job.graph).to_job(
        mount.named(job.name),
        description=job.description,
        resource_defs=resources,
        config=job.config_mapping or job.run_config,
        executor_def=dg.in_process_executor,
        hooks=job.hook_defs,
        partitions_def=job.partitions_def,
        tags={**job.tags, **mount.tags},
    )


def _pooled(job: dg.JobDefinition, mount: Mount) -> dg.GraphDefinition:
    """The graph of a job of the library. The name of its op, and so the form of the launchpad, is that of every warehouse."""
    (op,) = job.graph.node_defs
    assert isinstance(op, dg.OpDefinition)
    ours = _in_pool(op, mount) if job.tags[SLOT] == SPARK else op
    return dg.GraphDefinition(
        mount.named(job.name), node_defs=[ours], dependencies={dg.NodeInvocation(ours.name, alias=op.name): {}}
    )


def _in_pool(op: dg.OpDefinition, mount: Mount) -> dg.OpDefinition:
    """The op with the warehouse's pool, as a definition of its own: a deployment has each name once."""
    return dg.OpDefinition(
        compute_fn=op.compute_fn,
        name=mount.named(op.name),
        description=op.description,
        config_schema=op.config_schema,
        required_resource_keys=set(op.required_resource_keys),
        tags=op.tags,
        retry_policy=op.retry_policy,
        pool=mount.pools.spark,
    )


VARIABLE = "LAKEWARDEN_WAREHOUSE"
DEFAULT = "./warehouse"
WEBHOOK = "LAKEWARDEN_ALERT_WEBHOOK"
OWNERS = "LAKEWARDEN_OWNERS"
SURVEYS = "LAKEWARDEN_SURVEYS"


def _jobs_of_operations() -> Iterator[dg.JobDefinition]:
    """`jobs.<operation>.<operation>_job` of each operation that has such a file."""
    for operation in SPECS:
        if find_spec(module := f"lakewarden.dagster.jobs.{operation}"):
            yield getattr(import_module(module), f"{operation}_job")


JOBS = (*_jobs_of_operations(), record_job, run_queued_job, prune_job, check_all_job)


def build_definitions(
    warehouse: str | None = None,
    *,
    key_prefix: Sequence[str] = (),
    group: str | None = None,
    owners: Sequence[str] = (),
    pools: Pools = Pools(),
    spark: SparkResource | None = None,
    on_failure: OnFailure | None = None,
    expectations: Mapping[str, SuiteSource] | None = None,
    jobs: Sequence[dg.JobDefinition] = (),
    surveys: Sequence[str] | Surveys = (),
) -> dg.Definitions:
    """The definitions of one warehouse. Those of several merge, if their prefixes differ.

    Args:
        warehouse: its URI: a directory, or `s3://bucket/prefix` (also `gs://`, `abfss://`); or an `EnvVar` with it. It need
            not exist yet. Without it, as for the command line: the one that `LAKEWARDEN_WAREHOUSE` names, else `./warehouse`;
            and `LAKEWARDEN_ALERT_WEBHOOK`, if it is set, for `on_failure`.
        key_prefix: stands in front of every asset key, and of the names of jobs, sensors, schedules, resources and partitions.
            Without it, asset keys are `[namespace, table]`.
        group: the group of all assets; without it, one for each namespace.
        owners: of all assets: e-mail addresses, or `team:name`. Without a `warehouse`, those in `LAKEWARDEN_OWNERS`, by commas.
        pools: the concurrency pools of the steps.
        spark: a Spark resource of the deployment's own, instead of one with Lakewarden's settings.
        on_failure: is called for each run that failed for good, and each check that turned failed: a `Webhook`, or a function
            that takes a `FailedRun` or a `FailedAssetCheck`.
        expectations: suites of Great Expectations by the names of their tables: an `ExpectationSuite`, its `to_json_dict()`, or
            the path of its file; one that cannot be read is a failed check, and keeps nothing else from loading. Without it, the
            files `expectations/<namespace>.<table>.json` of the working directory, where `lakewarden.toml` is, too.
        jobs: the deployment's own over this warehouse: they get its prefix, its tags, and `lake`, `mount` and `spark` as the
            resources of their ops.
        surveys: places with Delta tables that others wrote, by URI. Each is an asset that looks at them, with a check that fails
            where one is damaged; `Surveys` says when, too. Without a `warehouse`, those in `LAKEWARDEN_SURVEYS`, by commas, too.

    Raises:
        InvalidArgument: a URI or the prefix is not valid, or a variable is not set.
    """
    configured = warehouse or _of_environment()
    hook = on_failure or (Webhook(dg.EnvVar(WEBHOOK)) if not warehouse and os.environ.get(WEBHOOK) else None)
    owned_by = tuple(owners) or _listed_in(OWNERS, warehouse)
    mount = Mount(canonical(value_of(configured)), tuple(key_prefix), group, pools, owned_by)
    wanted = surveys if isinstance(surveys, Surveys) else Surveys(surveys)
    places = [*map(value_of, wanted.places), *_listed_in(SURVEYS, warehouse)]
    resources = resources_of(mount, configured, spark)
    return _definitions(mount, resources, suites_of(expectations), jobs, Surveys(places, wanted.cron), hook)


def _definitions(
    mount: Mount,
    resources: Mapping[str, object],
    suites: Sequence[Suite],
    own_jobs: Sequence[dg.JobDefinition],
    surveys: Surveys,
    hook: OnFailure | None,
) -> dg.Definitions:
    """Those of the warehouse as it is now."""
    opened = _open(mount.uri)
    catalog = opened.catalog.read() if opened else Catalog()
    checks = build_table_checks(mount, catalog, {suite.table for suite in suites if suite.table and checks_of(suite)})
    expected = build_expectation_checks(mount, catalog, suites)
    rejects = build_reject_checks(mount, catalog)
    of_jobs = without_forms(resources)
    schedules = [*build_schedules(mount, catalog), *([build_check_schedule(mount, suites)] if checks else [])]
    specs = with_automation(mount, catalog, build_table_specs(mount, opened, catalog), schedules) if opened else []
    keys = [spec.key for spec in specs]
    healths = build_health_assets(mount, catalog)
    health_keys = [key for one in healths for key in one.keys]
    surveyed = build_survey_assets(mount, surveys.places)
    watched = [*([*checks, *expected, *rejects, *healths] if checks else []), *surveyed]
    return dg.Definitions(
        assets=[
            *_with_code([*build_table_assets(mount, specs, catalog), *build_rule_assets(mount, catalog), *healths, *surveyed]),
            *build_source_specs(mount, catalog),
        ],
        asset_checks=[*checks, *expected, *rejects],
        jobs=[
            *(mounted(job, mount, of_jobs, _pooled(job, mount)) for job in JOBS),
            *(mounted(job, mount, of_jobs) for job in own_jobs),
            *build_restore_jobs(mount, catalog, of_jobs),
            *build_partition_jobs(mount, specs, catalog, of_jobs),
            *([build_check_job(mount, [*checks, *expected])] if checks else []),
            *([build_survey_job(mount, surveyed)] if surveyed else []),
            *([mounted(relay_job, mount, of_jobs, _pooled(relay_job, mount))] if has_topics(catalog) else []),
        ],
        schedules=[*schedules, *([build_survey_schedule(mount, surveys.cron)] if surveyed else [])],
        sensors=[
            *build_sensors(mount, keys, _crowded(mount, specs, catalog)),
            *build_upload_sensors(mount, catalog),
            build_catalog_sensor(mount, catalog.version),
            *([build_relay_sensor(mount)] if has_topics(catalog) else []),
            *([build_check_sensor(mount, keys, suites), build_health_sensor(mount, health_keys, suites)] if checks else []),
            *([build_alert_sensor(mount, catalog.tables, hook)] if hook else []),
            *([build_check_alert_sensor(mount, watched, hook)] if hook and watched else []),
        ],
        resources=shared_resources(mount, resources),
    )


def _crowded(mount: Mount, specs: Iterable[dg.AssetSpec], catalog: Catalog) -> frozenset[TableName]:
    """The tables that have too many users for partitions."""
    unpartitioned = (mount.table_of(spec.key) for spec in specs if spec.partitions_def is None)
    return frozenset(name for name in unpartitioned if name and catalog.tables[name].type != "SHARED")


def build_code_location() -> dg.Definitions:
    """All that a code location with nothing else needs: the warehouse of the environment, and an executor."""
    return dg.Definitions.merge(
        build_definitions(),
        dg.Definitions(executor=dg.in_process_executor),  # of assets' runs: a step in a process of its own may start its own JVM
    )


def _of_environment() -> str:
    """The variable's name rather than its value, so that the pages show it."""
    return dg.EnvVar(VARIABLE) if VARIABLE in os.environ else DEFAULT


def _listed_in(variable: str, warehouse: str | None) -> tuple[str, ...]:
    """The parts of what the environment says; nothing where the warehouse is not the environment's."""
    return () if warehouse else tuple(filter(None, map(str.strip, os.environ.get(variable, "").split(","))))


def _with_code(assets: Sequence[dg.AssetsDefinition]) -> list[dg.AssetsDefinition]:
    """Each with a reference to the code that runs it. Dagster warns that this call of its is beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        found = dg.with_source_code_references(assets)
    return [asset for asset in found if isinstance(asset, dg.AssetsDefinition)]


def _open(uri: str) -> Warehouse | None:
    """The warehouse; None if it does not exist yet. Never creates it."""
    if not open_store(Location(uri).below(STATE)).list(""):
        return None
    return Warehouse.open(uri, load_settings(os.environ), system_clock, random_id)
