"""`offboard_job`: a tenant leaves. The account is closed, the data is handed over, then erased, and a certificate says so.

Dagster keeps the form of every run, so no form takes the tenant's id: `lakewarden erase --user U --queue` stores it in the
warehouse, and this job takes the keyed hash. A run that was cut off is run again.
"""

import json
from dataclasses import asdict

import dagster as dg
from pyarrow import fs
from pydantic import Field
from sqlglot import exp

from lakewarden.client import Lakehouse
from lakewarden.dagster import RETRIES, declined, job_tags
from lakewarden.dagster.jobs.erase import EraseConfig, erase
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.storage.location import canonical

_AFTER = {"behind": dg.In(dg.Nothing)}


class LeavingConfig(dg.Config):
    """Which tenant leaves, and where its data goes. By default, it only reports what it would do."""

    request: str = Field(description="The keyed hash that `erase --queue` printed. Never a user's id: Dagster keeps this value.")
    hand_over: str = Field(
        description="A directory or URI outside of the warehouse: it gets the tenant's tables, and the certificate."
        " No credentials and no id in it."
    )
    dry_run: bool = Field(True, description="Only say what would be done. Set it to false to do it.")


@dg.op(retry_policy=RETRIES, description="Closes the account, if there is one: its sessions end, and its name stays taken.")
def close_account(context: dg.OpExecutionContext, config: LeavingConfig, lake: dg.ResourceParam[Lakehouse]) -> None:
    with declined(context):
        _check_outside(lake, config.hand_over)  # before the first step changes anything
        user = lake.requested_erasure(config.request).user
        account = lake.warehouse.catalog.read().users.get(user)
        is_open = account is not None and account.deleted_at is None
        if is_open and not config.dry_run:
            lake.sql(f"DROP USER {exp.Literal.string(user).sql()}")
        closing = "would be closed" if config.dry_run else "closed"
        context.add_output_metadata({"outcome": closing if is_open else "there is no account"})


@dg.op(retry_policy=RETRIES, ins=_AFTER, description="Exports the tenant's tables, and copies them to the place.")
def hand_over(context: dg.OpExecutionContext, config: LeavingConfig, lake: dg.ResourceParam[Lakehouse]) -> None:
    """An erasure removes the exports that the warehouse made; the copy is the tenant's."""
    with declined(context):
        user = lake.requested_erasure(config.request).user
        place, path = _at(config.hand_over)
        if config.dry_run:
            context.add_output_metadata({"outcome": "would be exported", "place": config.hand_over})
            return
        try:
            made = lake.export(user, f"{lake.warehouse.uri}/exports/{config.request}")
        except NotFound:
            context.add_output_metadata({"outcome": "there is nothing to export"})
            return
        source, exported = _at(made.uri)
        fs.copy_files(exported, path, source_filesystem=source, destination_filesystem=place)
        size = sum(file.size for file in made.files)
        context.add_output_metadata(
            {
                "outcome": "exported",
                "place": config.hand_over,
                "tables": len(made.tables),
                "rows": sum(table.rows for table in made.tables),
                "size": f"{size / 1e6:,.1f} MB",
            }
        )


@dg.op(retry_policy=RETRIES, ins=_AFTER, description="Puts the newest certificate of the erasure beside the tenant's tables.")
def certify(context: dg.OpExecutionContext, config: LeavingConfig, lake: dg.ResourceParam[Lakehouse]) -> None:
    with declined(context):
        if config.dry_run:
            context.add_output_metadata({"outcome": "would be certified"})
            return
        certificate = [one for one in lake.erasures() if one.user == config.request][-1]
        place, path = _at(config.hand_over)
        place.create_dir(path)
        with place.open_output_stream(f"{path}/certificate.json") as out:
            out.write(json.dumps(asdict(certificate), indent=2).encode())
        context.add_output_metadata({"outcome": certificate.result, "certificate": certificate.id, "to_do": certificate.to_do})


def _at(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a directory or URI, and the path there."""
    place, path = fs.FileSystem.from_uri(canonical(uri))
    return place, path.rstrip("/")


def _check_outside(lake: Lakehouse, place: str) -> None:
    """Raises:
    InvalidArgument: the erasure would remove what is handed over there, or find it.
    """
    warehouse, there = canonical(lake.warehouse.uri), canonical(place)
    if f"{there}/".startswith(f"{warehouse}/"):
        raise InvalidArgument(f"{place} is inside of the warehouse: choose a place that the erasure does not search")


@dg.config_mapping
def _one_form(config: LeavingConfig) -> dg.RunConfig:
    """One form for all steps; the erasure has a form of its own."""
    erasing = EraseConfig(request=config.request, dry_run=config.dry_run, plan="")
    return dg.RunConfig(ops={"close_account": config, "hand_over": config, "erase": erasing, "certify": config})


@dg.job(
    config=_one_form,
    tags=job_tags("offboard", 20),
    description="A tenant leaves: the account, an export, the erasure, a certificate; dry run by default.",
)
def offboard_job() -> None:
    certify(erase(hand_over(close_account())))
