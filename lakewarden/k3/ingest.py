"""Pipelines, which do not exist yet (K3-22 to K3-26, K3-119 to K3-125): what K3 says of tables without one."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.errors import FailedPrecondition, NotFound, Unsupported
from lakewarden.k3.calls import Calls
from lakewarden.k3.wire import Wire

_LATER = "templates and pipelines are not part of this release; create_table makes a table with columns"


class Ingest(Calls):
    """The calls about pipelines. Every table is a manual one, and has no rule."""

    def create_table_pipeline(
        self, bucket: str, name: str, template: str, options: Mapping[str, object] | None = None
    ) -> dict[str, Wire]:
        """Raises:
        Unsupported: always.
        """
        self._catalog(bucket)
        raise Unsupported(f"create_table_pipeline({name!r}, {template!r}): {_LATER}")

    def list_rules(self, bucket: str) -> list[dict[str, Wire]]:
        """No rule: only pipelines have them."""
        self._catalog(bucket, "look at what exists")
        return []

    def get_rule(self, bucket: str, rule_id: str) -> dict[str, Wire]:
        """Raises:
        NotFound: always.
        """
        self._catalog(bucket, "look at what exists")
        raise NotFound(f"bucket {bucket!r} has no rule {rule_id!r}: {_LATER}")

    def update_rule(self, bucket: str, rule_id: str, **_changes: object) -> dict[str, Wire]:
        """Raises:
        NotFound: always.
        """
        return self.get_rule(bucket, rule_id)

    def trigger_ingest(self, bucket: str, table: str, object: str) -> dict[str, Wire]:
        """Raises:
        FailedPrecondition: the table is a manual one.
        """
        found = self._table(bucket, table, "write")
        raise FailedPrecondition(f"{found.name} is a manual table: it has no pipeline that could take {object!r}")
