"""Who may do what: the roles of sessions, their rights as data, and the gate that decides by them.

The gate decides whether a session (SQL, its tables in Python, subscriptions) may do something, before it is done. The operator
has the warehouse itself and passes no gate: `Lakehouse`, jobs, Dagster, and commands without a user and a role.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, cast, get_args

from lakewarden.base.scope import TableName
from lakewarden.catalog.names import AccessLevel, Role
from lakewarden.errors import InvalidArgument, PermissionDenied, Unsupported

ROLES: tuple[Role, ...] = get_args(Role)
"""From the least trusted to the most."""

ALIASES: dict[str, Role] = {
    "admin": "dba",
    "developer": "service",
    "analyst": "service",
    "viewer": "user",
    "readonly": "user",
}


def parse_role(text: str) -> Role:
    """Reads a role: `Admin` → `dba`.

    Raises:
        InvalidArgument: the role does not exist.
    """
    word = text.strip().lower()
    found = ALIASES.get(word) or next((role for role in ROLES if role == word), None)
    if found is None:
        raise InvalidArgument(f"unknown role {text!r}; the roles are {', '.join(ROLES)}, also written {', '.join(ALIASES)}")
    return found


# Which roles may do what, and which table types take which options, as data for the checks and docs/reference/access.md.
TableKind = Literal["USER", "SHARED", "STREAM", "SYSTEM"]
KINDS: tuple[TableKind, ...] = get_args(TableKind)
ACCESS_LEVELS: tuple[AccessLevel, ...] = get_args(AccessLevel)

Roles = frozenset[Role]

NOBODY: Roles = frozenset()
EVERYBODY: Roles = frozenset(ROLES)
SIGNED_IN: Roles = EVERYBODY - {"anonymous"}
STAFF: Roles = frozenset({"service", "dba", "system"})
ADMINS: Roles = frozenset({"dba", "system"})

RowAct = Literal["read", "write"]
"""Acts on rows. History and subscriptions are `read`; restoring or optimizing one's own scope is `write`."""
DefineAct = Literal["create", "alter", "drop"]
MaintainAct = Literal["flush", "compact", "evict", "move", "maintain every scope of"]
TableAct = RowAct | DefineAct | MaintainAct

OWN_ROWS: dict[RowAct, Roles] = {"read": SIGNED_IN, "write": SIGNED_IN}
"""USER and STREAM tables: always the session's own scope, whatever the role."""

SHARED_ROWS: dict[AccessLevel, dict[RowAct, Roles]] = {
    "PUBLIC": {"read": EVERYBODY, "write": STAFF},
    "PRIVATE": {"read": STAFF, "write": STAFF},
    "RESTRICTED": {"read": STAFF, "write": STAFF},
    "DBA": {"read": ADMINS, "write": ADMINS},
}

SYSTEM_ROWS: dict[RowAct, Roles] = {"read": ADMINS, "write": NOBODY}

DEFINE: dict[DefineAct, Roles] = {"create": STAFF, "alter": STAFF, "drop": ADMINS}
"""USER, SHARED and STREAM tables, whatever their access level: DDL has a rule of its own (Table Types). No role defines SYSTEM
tables.
"""

MAINTAIN: dict[MaintainAct, Roles] = {**dict.fromkeys(get_args(MaintainAct), STAFF), "move": ADMINS}

WarehouseAct = Literal[
    "create views",
    "manage namespaces",
    "manage storages",
    "check storages",
    "manage settings",
    "kill jobs",
    "manage users",
    "back up the database",
    "export their own data",
    "look at what exists",
]

Act = TableAct | WarehouseAct

WAREHOUSE: dict[WarehouseAct, Roles] = {
    **dict.fromkeys(get_args(WarehouseAct), ADMINS),
    "export their own data": SIGNED_IN,
    "look at what exists": SIGNED_IN,
}
"""Acts that do not concern one table: an administrator's, unless they are everybody's who signed in."""

IMPERSONATE: dict[Role, Roles] = {
    "anonymous": NOBODY,
    "user": NOBODY,
    "service": frozenset({"service", "user"}),
    "dba": frozenset({"dba", "service", "user"}),
    "system": EVERYBODY - {"anonymous"},
}
"""The roles whose users' place each role may take by EXECUTE AS USER. Every user may take their own place."""

Capability = Literal[
    "made by DDL", "a scope per user", "cold tier", "files", "subscriptions", "updates", "needs a primary key", "partitions"
]

CAPABILITIES: dict[Capability, frozenset[TableKind]] = {
    "made by DDL": frozenset({"USER", "SHARED", "STREAM"}),
    "a scope per user": frozenset({"USER", "STREAM"}),
    "cold tier": frozenset({"USER", "SHARED"}),
    "files": frozenset({"USER", "SHARED"}),
    "subscriptions": frozenset({"USER", "SHARED", "STREAM"}),
    "updates": frozenset({"USER", "SHARED"}),
    "needs a primary key": frozenset({"USER"}),
    "partitions": frozenset({"SHARED"}),
}


def can(kind: TableKind, capability: Capability) -> bool:
    return kind in CAPABILITIES[capability]


def roles_for(act: TableAct, kind: TableKind, level: AccessLevel) -> Roles:
    """Returns the roles that may do it; `level` applies only to the rows of SHARED tables."""
    if act in ("read", "write"):
        return {"SHARED": SHARED_ROWS[level], "SYSTEM": SYSTEM_ROWS}.get(kind, OWN_ROWS)[act]
    if kind == "SYSTEM":
        return NOBODY
    return DEFINE[act] if act in ("create", "alter", "drop") else MAINTAIN[cast("MaintainAct", act)]


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
    """Allows the act, or raises. Acts of `TableAct` need a table.

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
    # Taking one's own place gives nothing, so every role may.
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
    """Raises Unsupported: tables of this type do not have the capability."""
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
