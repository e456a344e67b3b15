"""`Lakehouse`, the Python client: one warehouse, its tables, and the operations over them."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from types import TracebackType

from lakewarden.base.clock import Clock, NewId, random_id, system_clock
from lakewarden.base.settings import Settings, check_settings, load_settings
from lakewarden.catalog.state.processes import Processes
from lakewarden.client.delegates.catalog import CatalogDelegates
from lakewarden.client.delegates.maintenance import MaintenanceDelegates
from lakewarden.client.delegates.privacy import PrivacyDelegates
from lakewarden.client.delegates.work import WorkDelegates
from lakewarden.maintenance.execution.engine import Progress, silent
from lakewarden.spark.cluster import StartSpark
from lakewarden.tables.warehouse import Warehouse


class Lakehouse(CatalogDelegates, MaintenanceDelegates, PrivacyDelegates, WorkDelegates):
    """An open warehouse, as the operator sees it: every table, every scope.

    Use it as a context manager, or call `close`, which stops the Spark session and the processes that it started.
    """

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
        chosen = check_settings(settings) if settings else load_settings(os.environ)
        return cls(Warehouse.open(uri, chosen, clock, new_id, create=create), progress, spark)

    def close(self) -> None:
        self._parts.close()

    def noted(self, kind: str, doing: str, *, after: float = 0.0) -> AbstractContextManager[None]:
        """Shows this process in `system.cluster` inside the block; as `Processes.noted`."""
        warehouse = self.warehouse
        return Processes(warehouse.state).noted(kind, doing, clock=warehouse.clock, new_id=warehouse.new_id, after=after)

    def __enter__(self) -> Lakehouse:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
