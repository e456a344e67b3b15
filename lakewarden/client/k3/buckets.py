"""Buckets and their engines (K3-9 to K3-17)."""

from __future__ import annotations

from lakewarden.catalog.changes.engines import check_settings, engine_changed_at, engine_id, namespace_of
from lakewarden.client.k3.calls import Calls
from lakewarden.client.k3.messages import EngineAnswer
from lakewarden.client.k3.wire import EngineStatus, millis
from lakewarden.maintenance.admin.namespaces import make_namespace, switch_engine


class Buckets(Calls):
    """The calls about buckets and engines. No call takes an engine's id."""

    def create_bucket(self, bucket: str, settings: str = "{}") -> EngineAnswer:
        """Creates a bucket, whose engine is active at once; a bucket that exists is left as it is. Answers its engine."""
        self._door.allow("manage namespaces")
        check_settings(settings)
        if bucket not in self._warehouse.catalog.read().namespaces:
            make_namespace(self._warehouse, bucket)
            if settings != "{}":
                switch_engine(self._warehouse, bucket, active=True, settings=settings)
        return self.get_engine(bucket)

    def get_engine(self, bucket: str) -> EngineAnswer:
        """Raises NotFound: the bucket does not exist."""
        catalog = self._catalog(bucket, "look at what exists")
        namespace = namespace_of(catalog, bucket)
        status = EngineStatus.ACTIVE if namespace.engine.active else EngineStatus.DISABLED
        return {
            "engineId": engine_id(namespace),
            "bucket": bucket,
            "status": status.wire,
            "settings": namespace.engine.settings,
            "tableCount": len(self._tables(catalog, bucket)),
            "createdAt": millis(namespace.created_at),
            "updatedAt": millis(engine_changed_at(namespace)),
        }

    def enable_engine(self, bucket: str, settings: str | None = None) -> EngineAnswer:
        """Enables the bucket's engine; `settings`, where they are given, replace its own. Answers it."""
        return self._switched(bucket, active=True, settings=settings)

    def disable_engine(self, bucket: str) -> EngineAnswer:
        """Disables the bucket's engine: calls of its tables are refused, and nothing is deleted. Answers it."""
        return self._switched(bucket, active=False)

    def _switched(self, bucket: str, *, active: bool, settings: str | None = None) -> EngineAnswer:
        self._door.allow("manage namespaces")
        switch_engine(self._warehouse, bucket, active=active, settings=settings)
        return self.get_engine(bucket)
