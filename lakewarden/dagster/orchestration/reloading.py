"""Reloads the code location when the catalog has changed, so that new tables become assets.

A code location cannot reload itself in Dagster, but the webserver can: it passes a reload on to the code server, and the
daemon notices. So this calls the webserver, whose address `lakewarden ui` puts into the environment. In other
deployments set `LAKEWARDEN_DAGSTER_URL`, or reload manually when the sensor reports it.
"""

import os
from urllib.parse import urlsplit

import dagster as dg

from lakewarden.dagster.lakehouse import lake_of_tick
from lakewarden.dagster.mount import Mount

VARIABLE = "LAKEWARDEN_DAGSTER_URL"


def build_catalog_sensor(mount: Mount, loaded: int) -> dg.SensorDefinition:
    """A sensor that requests a reload when the catalog's version is no longer `loaded`."""

    @dg.sensor(
        name=mount.named("catalog_sensor"),
        description="Reloads this code location when the catalog changed, so that new tables become assets.",
        minimum_interval_seconds=15,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def catalog_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        version = lake_of_tick(context, mount).warehouse.catalog.read().version
        if version == loaded:
            return dg.SkipReason(f"the catalog is at version {version}, as loaded")
        moved = f"the catalog moved from version {loaded} to {version}"
        return dg.SkipReason(f"{moved}: {reload_or_ask(context)}")

    return catalog_sensor


def reload_or_ask(context: dg.SensorEvaluationContext) -> str:
    """Has the code location reloaded where the webserver's address is known; returns the outcome, or what to do, as text."""
    url = os.environ.get(VARIABLE)
    if url is None:
        return f"reload the code location, or set {VARIABLE} to the webserver's address for this sensor to do it"
    return reload_location(url, _location(context))


def _location(context: dg.SensorEvaluationContext) -> str:
    """The name that workspace.yaml gives this code location."""
    origin = context.code_location_origin
    return origin.location_name if origin else "lakewarden"


def reload_location(url: str, location: str) -> str:
    """Has the webserver reload the location; returns the outcome as text."""
    from dagster_graphql import (
        DagsterGraphQLClient,
        ReloadRepositoryLocationStatus,
    )  # a client of HTTP and GraphQL, needed here only

    parts = urlsplit(url)
    client = DagsterGraphQLClient(parts.hostname or url, port_number=parts.port, use_https=parts.scheme == "https")
    answer = client.reload_repository_location(location)
    if answer.status is ReloadRepositoryLocationStatus.SUCCESS:
        return "the code location is reloaded"
    return f"the webserver at {url} refused to reload the code location: {answer.failure_type}, {answer.message}"
