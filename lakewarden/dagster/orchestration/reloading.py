"""Reloads the code location when the catalog has changed, so that new tables become assets.

A code location cannot reload itself in Dagster, but the webserver can: it passes a reload on to the code server, and the
daemon notices. So this calls the webserver, whose address `lakewarden ui` puts into the environment. In other
deployments set `LAKEWARDEN_DAGSTER_URL`, or reload manually when the sensor reports it.
"""

import os
from functools import partial
from urllib.parse import urlsplit

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.mount import Mount
from lakewarden.dagster.orchestration.evaluations import build_sensor

VARIABLE = "LAKEWARDEN_DAGSTER_URL"


def build_catalog_sensor(mount: Mount, loaded: int) -> dg.SensorDefinition:
    """A sensor that requests a reload when the catalog's version is no longer `loaded`."""
    return build_sensor(mount, partial(catalog_sensor, loaded=loaded), None, seconds=15)


def catalog_sensor(context: dg.SensorEvaluationContext, lake: Lakehouse, _mount: Mount, loaded: int) -> dg.SkipReason:
    """Reloads this code location when the catalog changed, so that new tables become assets."""
    version = lake.warehouse.catalog.read().version
    if version == loaded:
        return dg.SkipReason(f"the catalog is at version {version}, as loaded")
    return dg.SkipReason(f"the catalog moved from version {loaded} to {version}: {reload_or_ask(context)}")


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
