"""The parts of an open warehouse that its nouns share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from lakewarden.catalog.state.processes import LiveQueries
from lakewarden.maintenance.engine import WorkEngine
from lakewarden.spark.cluster import SparkCluster
from lakewarden.tables.warehouse import Warehouse

if TYPE_CHECKING:
    from lakewarden.catalog.state.ledger import Ledger
    from lakewarden.maintenance.operator import Operator
    from lakewarden.maintenance.runner import Runner
    from lakewarden.sql.context import Services
    from lakewarden.sql.query_engine.workers.engine import Workers
    from lakewarden.tables.changes.log_reader import Feeds


@dataclass(frozen=True)
class Parts:
    """Creates each part, and imports its modules, when it is first needed.

    Importing all operations takes as long as a whole query from the command line.
    """

    warehouse: Warehouse
    engine: WorkEngine
    cluster: SparkCluster
    ledgers: dict[str, Ledger] = field(default_factory=dict)

    @cached_property
    def operator(self) -> Operator:
        from lakewarden.catalog.state.job_log import JobLog
        from lakewarden.maintenance.operator import Operator

        warehouse = self.warehouse
        lease = timedelta(seconds=warehouse.settings.jobs.lease_seconds)
        return Operator(warehouse, self.engine, JobLog(warehouse.state, warehouse.clock, warehouse.new_id, lease))

    @cached_property
    def runner(self) -> Runner:
        from lakewarden.maintenance.runner import Runner

        return Runner(self.operator)

    @cached_property
    def services(self) -> Services:
        """The services of all SQL sessions."""
        from lakewarden.sql.context import Services, Sessions  # imports sqlglot
        from lakewarden.sql.query_engine.in_process import engine_of_process  # imports Arrow

        engine = engine_of_process(self.warehouse.settings.sql)
        return Services(self.warehouse, engine, self.workers, Sessions(), lambda: self.operator, lambda: self.feeds)

    @cached_property
    def workers(self) -> Workers:
        from lakewarden.sql.query_engine.workers.engine import Workers  # imports Arrow

        return Workers.of(self.warehouse.settings.sql)

    def ledger(self, pipeline_id: str) -> Ledger:
        """One for each pipeline: it remembers what it has read of what never changes."""
        from lakewarden.catalog.state.ledger import Ledger  # imports NumPy

        return self.ledgers.setdefault(pipeline_id, Ledger(self.warehouse.state, pipeline_id))

    def close(self) -> None:
        self.engine.close()
        if "workers" in self.__dict__:
            self.workers.close()

    @cached_property
    def feeds(self) -> Feeds:
        """One reader of each table's log, for all subscriptions of this process."""
        from lakewarden.tables.changes.log_reader import Feeds

        return Feeds(LiveQueries(self.warehouse.state), time.monotonic)


class Noun:
    """What a part of the client is made of: `Lakehouse` has the calls of all, and a noun of its own for each."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
