"""A session at the gate: the audit log records what it is denied, and which users it acts as."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakewarden.catalog.access import Act, GuardedTable, Principal, allow, impersonate
from lakewarden.catalog.changes.users import role_of
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.errors import PermissionDenied


@dataclass(frozen=True)
class Door:
    """One session's access through the gate."""

    principal: Principal
    audit: AuditLog

    def allow(self, act: Act, table: GuardedTable | None = None) -> None:
        """As `gate.allow`; a denial is noted first."""
        try:
            allow(self.principal, act, table)
        except PermissionDenied as denied:
            self._note("warehouse" if table is None else f"table:{table.name}", denied)
            raise

    @contextmanager
    def watched(self, target: str) -> Iterator[None]:
        """Notes a denial from within."""
        try:
            yield
        except PermissionDenied as denied:
            self._note(target, denied)
            raise

    def _note(self, target: str, denied: PermissionDenied) -> None:
        self.audit.note(self.principal, "DENIED", target, denied.message)

    def execute_as(self, catalog: Catalog, user: str) -> Door:
        """The gate for another user, for EXECUTE AS USER; recorded whether allowed or not.

        Raises:
            PermissionDenied: the role may not act as that user.
        """
        target = f"user:{user}"
        try:
            taken = impersonate(self.principal, user, role_of(catalog, user))
        except PermissionDenied as denied:
            self.audit.note(self.principal, "EXECUTE_AS_USER_DENIED", target, denied.message, subject=user)
            raise
        self.audit.note(self.principal, "EXECUTE_AS_USER", target, f"role {taken.role}", subject=user)
        return Door(taken, self.audit)
