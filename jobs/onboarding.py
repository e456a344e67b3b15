"""`onboard_job`: a tenant gets what this deployment gives to each: the namespace, the tables, and an account with its rights.

Each step is the same whether it was done before or not, so a run that was cut off is run again. Change `TABLES` to your own.
"""

from collections.abc import Mapping
from typing import Literal

import dagster as dg
from pydantic import Field
from sqlglot import exp

from lakewarden.base.scope import TableName
from lakewarden.client import Lakehouse
from lakewarden.dagster import RETRIES, Mount, declined, job_tags
from lakewarden.errors import AlreadyExists

NAMESPACE = "nyc"
TABLES: Mapping[str, str] = {
    "nyc.logbook": """
        CREATE USER TABLE IF NOT EXISTS nyc.logbook (at TIMESTAMP PRIMARY KEY, note TEXT NOT NULL)
        WITH (FLUSH_POLICY = 'rows:1000,interval:60')
    """,
}
"""The tables in which each tenant has a scope, with the statement that creates one."""


class TenantConfig(dg.Config):
    """Which tenant comes. By default, it only says what is missing."""

    user: str = Field(description="The tenant's id, as writers name it. An erasure of the tenant takes it out of Dagster again.")
    role: Literal["user", "service"] = Field("user", description="user: its own rows; service: also those of other tenants.")
    dry_run: bool = Field(True, description="Only say what would be done. Set it to false to do it.")


@dg.op(retry_policy=RETRIES, description="The namespace of the tenants' tables.")
def namespace(context: dg.OpExecutionContext, config: TenantConfig, lake: dg.ResourceParam[Lakehouse]) -> None:
    with declined(context):
        there = any(one.name == NAMESPACE for one in lake.namespaces())
        if not there and not config.dry_run:
            lake.create_namespace(NAMESPACE, if_not_exists=True)
        context.add_output_metadata({"namespace": NAMESPACE, "outcome": _outcome(there, config)})


@dg.op(retry_policy=RETRIES, ins={"behind": dg.In(dg.Nothing)}, description="The tables, each with an event on its page.")
def tables(
    context: dg.OpExecutionContext, config: TenantConfig, lake: dg.ResourceParam[Lakehouse], mount: dg.ResourceParam[Mount]
) -> None:
    with declined(context):
        there = {str(table.name) for table in lake.tables()}
        for name, statement in TABLES.items():
            if name not in there and not config.dry_run:
                lake.sql(statement)
            outcome = _outcome(name in there, config)
            key = mount.asset_key(TableName.parse(name))
            context.log_event(dg.AssetObservation(key, description=f"onboard: {outcome}", metadata={"outcome": outcome}))
        context.add_output_metadata({name: _outcome(name in there, config) for name in TABLES})


@dg.op(retry_policy=RETRIES, ins={"behind": dg.In(dg.Nothing)}, description="The account, with the rights of its role.")
def account(context: dg.OpExecutionContext, config: TenantConfig, lake: dg.ResourceParam[Lakehouse]) -> None:
    with declined(context):
        there = lake.warehouse.catalog.read().users.get(config.user)
        if there and (there.deleted_at or there.role != config.role):
            state = "was dropped" if there.deleted_at else f"has the role {there.role}"
            raise AlreadyExists(f"there is an account of this name, which {state}: take another id, or ALTER USER changes a role")
        if not there and not config.dry_run:
            lake.sql(f"CREATE USER {exp.Literal.string(config.user).sql()} WITH INTERNAL ROLE {config.role}")
        outcome = _outcome(bool(there), config)
        context.add_output_metadata({"role": config.role, "outcome": outcome, "signs in": "with a token: lakewarden token"})


def _outcome(there: bool, config: TenantConfig) -> str:
    if there:
        return "there already"
    return "would be created" if config.dry_run else "created"


@dg.config_mapping
def _one_form(config: TenantConfig) -> dg.RunConfig:
    """One form for all steps."""
    return dg.RunConfig(ops={step.name: config for step in (namespace, tables, account)})


@dg.job(
    config=_one_form, tags=job_tags("onboard", 10), description="A tenant comes: namespace, tables, account; dry run by default."
)
def onboard_job() -> None:
    account(tables(namespace()))
