"""The nouns of a `Lakehouse`, which divide its methods by subject."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from lakewarden.client.catalog import LakeCatalog
from lakewarden.client.jobs import Jobs
from lakewarden.client.loads import Loads
from lakewarden.client.maintenance import MaintenanceCalls
from lakewarden.client.parts import Parts
from lakewarden.client.pipelines import Pipelines
from lakewarden.client.privacy import Privacy
from lakewarden.client.sessions import SqlSessions
from lakewarden.client.subscriptions import Subscriptions
from lakewarden.client.topics import Topics
from lakewarden.maintenance.execution.engine import Progress, WorkEngine, silent
from lakewarden.spark.cluster import SparkCluster, StartSpark
from lakewarden.tables.warehouse import Warehouse

if TYPE_CHECKING:
    from lakewarden.client.k3 import K3
    from lakewarden.tables.subscriptions.feed import Feeds


class Nouns:
    """`Lakehouse` without the delegates to its nouns' methods."""

    def __init__(self, warehouse: Warehouse, progress: Progress = silent, spark: StartSpark | None = None) -> None:
        """`progress` and `spark` as of `Lakehouse.open`."""
        self.warehouse = warehouse
        cluster = SparkCluster(warehouse.settings.spark, spark)
        self._parts = Parts(warehouse, WorkEngine(warehouse.settings, progress, cluster), cluster)

    @cached_property
    def catalog(self) -> LakeCatalog:
        """Namespaces, tables, views, storages and tags."""
        return LakeCatalog(self._parts)

    @cached_property
    def maintenance(self) -> MaintenanceCalls:
        """Operations over scopes, their plans, and the warehouse's state."""
        return MaintenanceCalls(self._parts)

    @cached_property
    def loads(self) -> Loads:
        """Files of other systems, loaded into tables."""
        return Loads(self._parts, self.maintenance, self.catalog.table)

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
        return Privacy(self._parts, self.catalog.table)

    @cached_property
    def sessions(self) -> SqlSessions:
        """SQL for a user in a role."""
        return SqlSessions(self._parts)

    @cached_property
    def subscriptions(self) -> Subscriptions:
        """Subscriptions to queries."""
        return Subscriptions(self.warehouse, self.sessions)

    @cached_property
    def k3(self) -> K3:
        """K3's calls."""
        from lakewarden.client.k3 import K3  # imports sqlglot and all operations

        return K3(self._parts.services)

    @property
    def feeds(self) -> Feeds:
        """One reader of each table's log, for all subscriptions of this process."""
        return self._parts.feeds
