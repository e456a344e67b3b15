"""`relay_job`: carries the changes of all tables with `log.system` kafka to their topics, each once."""

from lakewarden.dagster.assets.metadata import Row, table_value
from lakewarden.dagster.jobs.runs import job_of, job_tags, warehouse_op
from lakewarden.dagster.lakehouse import WarehouseRun
from lakewarden.ingest.relays import RelayOutcome

RELAY = "relay"


@warehouse_op("Publish what the topics lack.")
def relay(run: WarehouseRun) -> None:
    """A relay that ended fails the step behind the others: its owner decides what its topic is to have (docs/kafka.md)."""
    outcomes = run.lake.topics.relay_every()
    run.context.add_output_metadata({"tables": table_value([_row(each) for each in outcomes])} if outcomes else {})
    for error in filter(None, (each.error for each in outcomes)):
        raise error


relay_job = job_of(
    relay, job_tags(RELAY, 10), "Carries the changes of all tables with log.system kafka to their topics, each once."
)


def _row(outcome: RelayOutcome) -> Row:
    found = outcome.report
    numbers: Row = {} if found is None else {"topic": found.topic, "messages": found.messages, "lag": found.lag}
    error = "" if outcome.error is None else f"{outcome.error.code}: {outcome.error.message}"
    return {"table": str(outcome.table), "topic": "", "messages": 0, "lag": 0, **numbers, "error": error}
