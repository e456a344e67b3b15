"""The Python client of a warehouse: `Lakehouse`, with a noun for each part of it; K3's calls (`k3/`); the fleet's page; the demo.

Imports sql, spark and below. Begin with `Lakehouse`, whose calls are those of its nouns.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from lakewarden.base.clock import Clock, NewId, random_id, system_clock
from lakewarden.base.settings import Settings, checked_settings, load_settings
from lakewarden.catalog.state.processes import Processes
from lakewarden.client.catalog import CatalogCalls, LakeCatalog, TagCalls
from lakewarden.client.maintenance import Maintenance, MaintenanceCalls
from lakewarden.client.parts import Parts
from lakewarden.client.pipelines import IngestCalls, Loads, Pipelines
from lakewarden.client.plans import JobCalls, Jobs, PlanCalls
from lakewarden.client.privacy import Privacy, PrivacyCalls
from lakewarden.client.sessions import SqlCalls, SqlSessions, SubscriptionCalls, Subscriptions
from lakewarden.client.status import StatusCalls
from lakewarden.client.storages import StorageCalls
from lakewarden.client.topics import TopicCalls, Topics
from lakewarden.maintenance.engine import Progress, WorkEngine, silent
from lakewarden.spark.cluster import SparkCluster, StartSpark
from lakewarden.tables.warehouse import Warehouse

if TYPE_CHECKING:
    from lakewarden.client.k3 import K3
    from lakewarden.tables.changes.log_reader import Feeds


class Lakehouse(
    CatalogCalls,
    StorageCalls,
    TagCalls,
    MaintenanceCalls,
    StatusCalls,
    PlanCalls,
    PrivacyCalls,
    SqlCalls,
    Loads,
    IngestCalls,
    TopicCalls,
    SubscriptionCalls,
    JobCalls,
):
    """An open warehouse, as the operator sees it: every table, every scope.

    Use it as a context manager, or call `close`, which stops the Spark session and the processes that it started.
    """

    def __init__(self, warehouse: Warehouse, progress: Progress = silent, spark: StartSpark | None = None) -> None:
        """`progress` and `spark` as of `open`."""
        self.warehouse = warehouse
        cluster = SparkCluster(warehouse.settings.spark, spark)
        super().__init__(Parts(warehouse, WorkEngine(warehouse.settings, progress, cluster), cluster))

    @classmethod
    def open(
        cls,
        uri: str,
        *,
        settings: Settings | None = None,
        clock: Clock = system_clock,
        new_id: NewId = random_id,
        progress: Progress = silent,
        spark: StartSpark | None = None,
        create: bool = True,
    ) -> Lakehouse:
        """Opens a warehouse.

        Args:
            uri: a directory, or `s3://bucket/prefix` (also `gs://`, `abfss://`).
            settings: used instead of `lakewarden.toml` and the environment.
            progress: receives the number of finished scopes and of all scopes.
            spark: returns the Spark session when a job first needs one; without it, Lakewarden
                takes the one that runs in this process, or starts and stops its own.
            create: make the warehouse if it does not exist.

        Raises:
            NotFound: it does not exist, and `create` is False.
            StorageRefused, StorageUnavailable: the place cannot be written or reached.
        """
        chosen = checked_settings(msgspec.to_builtins(settings)) if settings else load_settings(os.environ)
        return cls(Warehouse.open(uri, chosen, clock, new_id, create=create), progress, spark)

    def close(self) -> None:
        """Stops the Spark session and the processes that were started for this client."""
        self._parts.close()

    def noted(self, kind: str, doing: str, *, after: float = 0.0) -> AbstractContextManager[None]:
        """Shows this process in `system.cluster` inside the block; as `Processes.noted`."""
        warehouse = self.warehouse
        return Processes(warehouse.state).noted(kind, doing, clock=warehouse.clock, new_id=warehouse.new_id, after=after)

    @cached_property
    def catalog(self) -> LakeCatalog:
        """Namespaces, tables, views, storages and tags."""
        return LakeCatalog(self._parts)

    @cached_property
    def maintenance(self) -> Maintenance:
        """Operations over scopes, their plans, and the warehouse's state."""
        return Maintenance(self._parts)

    @cached_property
    def loads(self) -> Loads:
        """Files of other systems, loaded into tables."""
        return Loads(self._parts)

    @cached_property
    def pipelines(self) -> Pipelines:
        """Tables that uploaded objects fill."""
        return Pipelines(self._parts)

    @cached_property
    def topics(self) -> Topics:
        """Topics of Kafka that tables are filled from, and carried to."""
        return Topics(self._parts)

    @cached_property
    def jobs(self) -> Jobs:
        """Jobs; a call lists them."""
        return Jobs(self._parts)

    @cached_property
    def privacy(self) -> Privacy:
        """Exports and erasures of a user."""
        return Privacy(self._parts)

    @cached_property
    def sessions(self) -> SqlSessions:
        """SQL for a user in a role."""
        return SqlSessions(self._parts)

    @cached_property
    def subscriptions(self) -> Subscriptions:
        """Subscriptions to queries."""
        return Subscriptions(self._parts)

    @cached_property
    def k3(self) -> K3:
        """K3's calls."""
        from lakewarden.client.k3 import K3  # imports sqlglot and all operations

        return K3(self._parts.services)

    @property
    def feeds(self) -> Feeds:
        """One reader of each table's log, for all subscriptions of this process."""
        return self._parts.feeds

    def __enter__(self) -> Lakehouse:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
