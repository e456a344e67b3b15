"""`relay_job`: carries the changes of all tables with `log.system` kafka to their topics, each once."""

from collections.abc import Sequence

import dagster as dg

from lakewarden.client import Lakehouse
from lakewarden.dagster.assets.metadata import Row, table_value
from lakewarden.dagster.jobs.runs import RETRIES, declined, job_of, job_tags
from lakewarden.ingest.relays import RelayOutcome

RELAY = "relay"


@dg.op(retry_policy=RETRIES, description="Publish what the topics lack.")
def relay(context: dg.OpExecutionContext, lake: dg.ResourceParam[Lakehouse]) -> None:
    """A relay that ended fails the step behind the others: its owner decides what its topic is to have (docs/kafka.md)."""
    with declined(context):
        outcomes = lake.topics.relay_every()
        context.add_output_metadata({"tables": table_value([_row(each) for each in outcomes])} if outcomes else {})
        _raise_first(outcomes)


relay_job = job_of(
    relay, job_tags(RELAY, 10), "Carries the changes of all tables with log.system kafka to their topics, each once."
)


def _row(outcome: RelayOutcome) -> Row:
    found = outcome.report
    numbers: Row = {} if found is None else {"topic": found.topic, "messages": found.messages, "lag": found.lag}
    error = "" if outcome.error is None else f"{outcome.error.code}: {outcome.error.message}"
    return {"table": str(outcome.table), "topic": "", "messages": 0, "lag": 0, **numbers, "error": error}


def _raise_first(outcomes: Sequence[RelayOutcome]) -> None:
    for each in outcomes:
        if each.error is not None:
            raise each.error
