"""Which roles may do what, and which table types take which options, as data for the checks and docs/reference/access.md."""

from __future__ import annotations

from typing import Literal, cast, get_args

from lakewarden.catalog.access.roles import ROLES, Role

TableKind = Literal["USER", "SHARED", "STREAM", "SYSTEM"]
AccessLevel = Literal["PUBLIC", "PRIVATE", "RESTRICTED", "DBA"]
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

MAINTAIN: dict[MaintainAct, Roles] = {
    "flush": STAFF,
    "compact": STAFF,
    "evict": STAFF,
    "move": ADMINS,
    "maintain every scope of": STAFF,
}

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
    "create views": ADMINS,
    "manage namespaces": ADMINS,
    "manage storages": ADMINS,
    "check storages": ADMINS,
    "manage settings": ADMINS,
    "kill jobs": ADMINS,
    "manage users": ADMINS,
    "back up the database": ADMINS,
    "export their own data": SIGNED_IN,
    "look at what exists": SIGNED_IN,
}
"""Acts that do not concern one table."""

IMPERSONATE: dict[Role, Roles] = {
    "anonymous": NOBODY,
    "user": NOBODY,
    "service": frozenset({"service", "user"}),
    "dba": frozenset({"dba", "service", "user"}),
    "system": EVERYBODY - {"anonymous"},
}
"""The roles whose users' place each role may take by EXECUTE AS USER. Every user may take their own place."""

Option = Literal[
    "TYPE",
    "STORAGE_ID",
    "USE_USER_STORAGE",
    "FLUSH_POLICY",
    "DELETED_RETENTION_HOURS",
    "TTL_SECONDS",
    "ACCESS_LEVEL",
    "COMPRESSION",
    "TARGET_FILE_SIZE",
    "EVICTION_STRATEGY",
    "MAX_STREAM_SIZE_BYTES",
    "ON_DUPLICATE",
    "CHANGE_TRACKING",
    "LOG_RETENTION",
    "CHANGE_DATA_FEED",
    "COMPACTION_RATIO",
]
Taking = Literal["taken", "required", "ignored", "refused"]
"""`ignored`: checked, accepted, and without effect; the answer to CREATE TABLE says so."""


def _by_kind(user: Taking, shared: Taking, stream: Taking) -> dict[TableKind, Taking]:
    return {"USER": user, "SHARED": shared, "STREAM": stream, "SYSTEM": "refused"}


OPTIONS: dict[Option, dict[TableKind, Taking]] = {
    "TYPE": _by_kind("taken", "taken", "taken"),
    "STORAGE_ID": _by_kind("taken", "taken", "ignored"),
    "USE_USER_STORAGE": _by_kind("taken", "refused", "refused"),
    "FLUSH_POLICY": _by_kind("taken", "taken", "ignored"),
    "DELETED_RETENTION_HOURS": _by_kind("taken", "taken", "ignored"),
    "TTL_SECONDS": _by_kind("refused", "refused", "required"),
    "ACCESS_LEVEL": _by_kind("refused", "taken", "refused"),
    "COMPRESSION": _by_kind("taken", "taken", "refused"),
    "TARGET_FILE_SIZE": _by_kind("taken", "taken", "refused"),
    "EVICTION_STRATEGY": _by_kind("refused", "refused", "taken"),
    "MAX_STREAM_SIZE_BYTES": _by_kind("refused", "refused", "taken"),
    "ON_DUPLICATE": _by_kind("taken", "taken", "refused"),
    "CHANGE_TRACKING": _by_kind("taken", "taken", "refused"),
    "LOG_RETENTION": _by_kind("taken", "taken", "refused"),
    "CHANGE_DATA_FEED": _by_kind("taken", "taken", "refused"),
    "COMPACTION_RATIO": _by_kind("taken", "taken", "refused"),
}

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
