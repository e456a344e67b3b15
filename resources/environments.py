"""Where a deployment runs, chosen by the variable `LAKEWARDEN_ENVIRONMENT`: what must be set there, and what Spark gets.

Dagster's own settings belong to the same three places: `lakewarden/dagster/dagster.yaml` on a laptop, `compose.yaml` for one
machine with MinIO and Postgres, `deploy/helm/values.yaml` for Kubernetes with S3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewarden.errors import InvalidArgument

VARIABLE = "LAKEWARDEN_ENVIRONMENT"
WAREHOUSE = "LAKEWARDEN_WAREHOUSE"

_POSTGRES = ("DAGSTER_PG_HOST", "DAGSTER_PG_PORT", "DAGSTER_PG_USER", "DAGSTER_PG_PASSWORD", "DAGSTER_PG_DB")


@dataclass(frozen=True)
class Environment:
    """One place to run. Secrets stay in variables: no page of Dagster's shows them."""

    needs: tuple[str, ...] = ()
    """Variables that have to be set."""
    refuses: tuple[str, ...] = ()
    """Variables that would lead elsewhere."""
    scheme: str = ""
    """What the warehouse's URI begins with."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Spark's settings, by their own names."""

    def check(self, name: str, environ: Mapping[str, str]) -> None:
        """Raises:
        InvalidArgument: names all that is missing, and all that is too much.
        """
        missing = [f"{variable} is not set" for variable in self.needs if not environ.get(variable)]
        alien = [f"{variable} is set" for variable in self.refuses if environ.get(variable)]
        uri = environ.get(WAREHOUSE, "")
        elsewhere = [f"{WAREHOUSE} does not begin with {self.scheme}"] if uri and not uri.startswith(self.scheme) else []
        if faults := [*missing, *alien, *elsewhere]:
            raise InvalidArgument(f"the environment {name!r} of {VARIABLE}: {'; '.join(faults)}")


ENVIRONMENTS: dict[str, Environment] = {
    # A directory, ./warehouse unless LAKEWARDEN_WAREHOUSE names another place; Spark inside the process, Dagster on SQLite.
    "laptop": Environment(),
    # One machine, as compose.yaml starts it. Its workers have a gigabyte each.
    "minio": Environment(
        needs=(WAREHOUSE, "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", *_POSTGRES),
        scheme="s3://",
        spark={"spark.executor.memory": "1g", "spark.executor.cores": "1"},
    ),
    # S3 itself: the keys are those of the machine or the pod, and no endpoint stands in the way.
    "s3": Environment(
        needs=(WAREHOUSE, "AWS_REGION"),
        refuses=("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"),
        scheme="s3://",
        spark={"spark.executor.memory": "4g", "spark.executor.cores": "2"},
    ),
}


def environment_of(environ: Mapping[str, str]) -> Environment:
    """The environment that the variable names; without it, the laptop.

    Raises:
        InvalidArgument: there is no such environment, or what it needs is not set.
    """
    name = environ.get(VARIABLE) or "laptop"
    if name not in ENVIRONMENTS:
        raise InvalidArgument(f"{VARIABLE}={name!r} is none of {', '.join(ENVIRONMENTS)}")
    ENVIRONMENTS[name].check(name, environ)
    return ENVIRONMENTS[name]
