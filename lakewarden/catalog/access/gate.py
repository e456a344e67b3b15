"""The gate: decides whether a session (SQL, its tables in Python, subscriptions) may do something, before it is done.

The operator has the warehouse itself and passes no gate: `Lakehouse`, jobs, Dagster, and commands without a user and a role.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from lakewarden.base.scope import TableName
from lakewarden.catalog.access.rights import (
    CAPABILITIES,
    IMPERSONATE,
    WAREHOUSE,
    AccessLevel,
    Act,
    Capability,
    Roles,
    TableAct,
    TableKind,
    WarehouseAct,
    can,
    roles_for,
)
from lakewarden.catalog.access.roles import ROLES, Role
from lakewarden.errors import PermissionDenied, Unsupported


class GuardedTable(Protocol):
    """The properties of a table that the gate checks (`catalog.model.Table` is one)."""

    @property
    def name(self) -> TableName: ...
    @property
    def type(self) -> TableKind: ...
    @property
    def access_level(self) -> AccessLevel: ...


@dataclass(frozen=True)
class TableOf:
    """A table of the `system` namespace, or one that does not exist yet."""

    name: TableName
    type: TableKind
    access_level: AccessLevel = "PRIVATE"


@dataclass(frozen=True)
class Principal:
    """The user and role of a request. `user` selects the scope of a USER or STREAM table, `role` decides what is allowed."""

    user: str
    role: Role = "user"
    actor: Principal | None = None
    """The user who took this user's place by EXECUTE AS USER."""
    request_id: str | None = field(default=None, compare=False)
    """The request over a network that acts; the audit log and jobs name it."""

    @property
    def opener(self) -> Principal:
        """Who opened the session, before any EXECUTE AS USER."""
        return self if self.actor is None else self.actor.opener


OPERATOR = Principal("root", "system")
"""The operator: the command line and `Lakehouse`, unless they name another."""


def may(principal: Principal, act: Act, table: GuardedTable | None = None) -> bool:
    """Returns what `allow` would decide, without the impersonation rule of SHARED tables."""
    return principal.role in _who_may(act, table)


def allow(principal: Principal, act: Act, table: GuardedTable | None = None) -> None:
    """Allows the act, or raises. Acts of `rights.TableAct` need a table.

    Raises:
        Unsupported: the principal acts as another user, and the table is SHARED: it has no rows of that user.
        PermissionDenied: the principal's role does not permit the act.
    """
    if principal.actor is not None and table is not None and table.type == "SHARED":
        raise Unsupported(f"EXECUTE AS USER does not work on {table.name}: a SHARED table's rows belong to no user")
    who = _who_may(act, table)
    if principal.role not in who:
        raise PermissionDenied(f"role {principal.role!r} may not {_spoken(act, table)}; {_named(who)} may")


def impersonate(principal: Principal, user: str, role: Role | None) -> Principal:
    """Returns the other user as principal, with that user's rights.

    Args:
        role: the user's; None for an unknown user, who counts as an ordinary user.

    Raises:
        PermissionDenied: the principal's role may not act as that role.
    """
    if user == principal.user and principal.role != "anonymous":
        return replace(principal, actor=principal)
    target: Role = role or "user"
    allowed = IMPERSONATE[principal.role]
    if target not in allowed:
        whom = (
            f"only for {_named(allowed)}" if allowed else "only for itself" if principal.role == "user" else "for no other user"
        )
        raise PermissionDenied(
            f"role {principal.role!r} may not execute as user {user!r} (role_not_allowed: {target!r}); it may act {whom}"
        )
    return Principal(user, target, actor=principal)


def require(table: GuardedTable, capability: Capability, act: str) -> None:
    """Raises:
    Unsupported: tables of this type do not have the capability.
    """
    if not can(table.type, capability):
        there = _listed(kind for kind in ("USER", "SHARED", "STREAM", "SYSTEM") if kind in CAPABILITIES[capability])
        raise Unsupported(f"{table.name} is a {table.type} table, which does not support {act}; {there} tables do")


def _who_may(act: Act, table: GuardedTable | None) -> Roles:
    if table is None:
        return WAREHOUSE[cast("WarehouseAct", act)]
    return roles_for(cast("TableAct", act), table.type, table.access_level)


def _spoken(act: Act, table: GuardedTable | None) -> str:
    if table is None:
        return act
    level = f" (ACCESS_LEVEL {table.access_level})" if table.type == "SHARED" and act in ("read", "write") else ""
    return f"{act} {table.type} table {table.name}{level}"


def _named(roles: Roles) -> str:
    return _listed(role for role in ROLES if role in roles) or "no role"


def _listed(words: Iterable[str]) -> str:
    *others, last = [*words] or [""]
    return f"{', '.join(others)} and {last}" if others else last
