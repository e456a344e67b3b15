"""One frozen value for each SQL statement. `parse` creates them, `execute` runs them.

They are not resolved: a table's name is as written, and options and types are text that the catalog's rules check.
Queries and expressions are sqlglot's trees; code that rewrites one copies it first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from lakewarden.catalog.evolution import AddColumn, DropColumn, ModifyColumn, RenameColumn, SetDefault, SetNullable
from lakewarden.catalog.model import Column


@dataclass(frozen=True)
class Ref:
    """A table or view as written; without a namespace, it is in the session's."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"


Pairs = tuple[tuple[str, str], ...]
"""Keys and values in the order of the text; a key may occur twice, which the options' reader refuses."""


# Namespaces


@dataclass(frozen=True)
class CreateNamespace:
    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropNamespace:
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AlterNamespace:
    name: str
    description: str


@dataclass(frozen=True)
class UseNamespace:
    name: str


# Tables and views


@dataclass(frozen=True)
class CreateTable:
    table: Ref
    type: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    options: Pairs = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class SetProperties:
    properties: Pairs


TableChange = AddColumn | DropColumn | ModifyColumn | RenameColumn | SetNullable | SetDefault | SetProperties


@dataclass(frozen=True)
class AlterTable:
    table: Ref
    change: TableChange


@dataclass(frozen=True)
class DropTable:
    """`type` is the one of the prefix, as in DROP USER TABLE; None without one."""

    table: Ref
    type: str | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class CreateView:
    view: Ref
    text: str
    """The query as written."""
    query: exp.Query
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropView:
    view: Ref
    if_exists: bool = False


# Storages


@dataclass(frozen=True)
class CreateStorage:
    id: str
    type: str
    base: str = ""
    bucket: str = ""
    name: str = ""
    description: str = ""
    shared_template: str = ""
    user_template: str = ""
    region: str = ""
    credentials: str = field(default="", repr=False)
    """A reference to a credential. Never shown: it may hold a misplaced secret."""
    config: str = field(default="", repr=False)
    """A JSON object."""


@dataclass(frozen=True)
class AlterStorage:
    """A field that is None stays unchanged."""

    id: str
    name: str | None = None
    description: str | None = None
    shared_template: str | None = None
    user_template: str | None = None
    region: str | None = None
    credentials: str | None = field(default=None, repr=False)
    config: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class DropStorage:
    id: str
    if_exists: bool = False


@dataclass(frozen=True)
class CheckStorage:
    id: str
    extended: bool = False


# Users


@dataclass(frozen=True)
class CreateUser:
    """One way to log in: a password, `oauth` with its JSON, or `internal`."""

    name: str
    auth: Literal["password", "oauth", "internal"]
    secret: str
    role: str
    email: str | None = None
    storage_mode: str | None = None
    storage_id: str | None = None

    def __repr__(self) -> str:
        return f"CreateUser(name={self.name!r}, auth={self.auth!r}, role={self.role!r})"  # no secret in a trace


@dataclass(frozen=True)
class AlterUser:
    """Sets one field; `value` is None for NULL."""

    name: str
    field: Literal["password", "role", "email", "storage_mode", "storage_id"]
    value: str | None

    def __repr__(self) -> str:
        return f"AlterUser(name={self.name!r}, field={self.field!r})"  # no secret in a trace


@dataclass(frozen=True)
class DropUser:
    name: str
    if_exists: bool = False


# Rows


@dataclass(frozen=True)
class Assignment:
    column: str
    value: exp.Expr


@dataclass(frozen=True)
class OnConflict:
    """`assignments` is None for DO NOTHING; `columns` is empty where the text names none."""

    columns: tuple[str, ...]
    assignments: tuple[Assignment, ...] | None
    where: exp.Expr | None = None


@dataclass(frozen=True)
class FileValue:
    """`FILE('name')` as the value of a row of VALUES, counted from 0, at a place in it."""

    row: int
    place: int
    name: str


@dataclass(frozen=True)
class Insert:
    """`columns` is empty where the text names none, which means all, in order. `rows` has NULL in place of `files`."""

    table: Ref
    columns: tuple[str, ...]
    rows: exp.Query | None
    """None for DEFAULT VALUES."""
    conflict: OnConflict | None = None
    alias: str | None = None
    files: tuple[FileValue, ...] = ()


@dataclass(frozen=True)
class Update:
    table: Ref
    assignments: tuple[Assignment, ...]
    where: exp.Expr
    alias: str | None = None


@dataclass(frozen=True)
class Delete:
    table: Ref
    where: exp.Expr
    alias: str | None = None


@dataclass(frozen=True)
class Query:
    query: exp.Query


@dataclass(frozen=True)
class Explain:
    query: exp.Query


@dataclass(frozen=True)
class Subscribe:
    query: exp.Query
    options: Pairs = ()


# What exists


@dataclass(frozen=True)
class Show:
    what: Literal["namespaces", "storages", "manifest", "export"]


@dataclass(frozen=True)
class ShowTables:
    namespace: str | None = None


@dataclass(frozen=True)
class ShowStats:
    table: Ref


@dataclass(frozen=True)
class Describe:
    """`versions`: every version of the columns instead of the newest."""

    table: Ref
    versions: bool = False


@dataclass(frozen=True)
class DescribeHistory:
    table: Ref
    limit: int | None = None


# Upkeep


@dataclass(frozen=True)
class StorageJob:
    """STORAGE FLUSH and STORAGE COMPACT of one table, or of all in a namespace (the session's where none is named)."""

    operation: Literal["flush", "compact"]
    table: Ref | None = None
    namespace: str | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class MoveTable:
    """STORAGE MOVE TABLE; `storage` is None for CANCEL."""

    table: Ref
    storage: str | None


@dataclass(frozen=True)
class Optimize:
    table: Ref
    zorder: tuple[str, ...] = ()
    all_users: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Vacuum:
    table: Ref
    retain_hours: float | None = None
    force: bool = False
    dry_run: bool = False
    all_users: bool = False


@dataclass(frozen=True)
class Restore:
    """Exactly one of `version` and `timestamp`; the latter as written."""

    table: Ref
    version: int | None = None
    timestamp: str | None = None
    all_users: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class ApplyPlan:
    id: str


@dataclass(frozen=True)
class KillJob:
    id: str


@dataclass(frozen=True)
class KillLiveQuery:
    id: str


@dataclass(frozen=True)
class ExportUserData:
    """Of the session's own user."""


# Others


@dataclass(frozen=True)
class ExecuteAs:
    user: str
    statement: Statement


@dataclass(frozen=True)
class Declined:
    """Recognized and not supported: transactions, backups, export and import of tables, and KalamDB features out of scope."""

    what: str


@dataclass(frozen=True)
class Forbidden:
    """Reaches outside the session's tables, as COPY and SET do: forbidden in every role."""

    what: str


Statement = (
    CreateNamespace
    | DropNamespace
    | AlterNamespace
    | UseNamespace
    | CreateTable
    | AlterTable
    | DropTable
    | CreateView
    | DropView
    | CreateStorage
    | AlterStorage
    | DropStorage
    | CheckStorage
    | CreateUser
    | AlterUser
    | DropUser
    | Insert
    | Update
    | Delete
    | Query
    | Explain
    | Subscribe
    | Show
    | ShowTables
    | ShowStats
    | Describe
    | DescribeHistory
    | StorageJob
    | MoveTable
    | Optimize
    | Vacuum
    | Restore
    | ApplyPlan
    | KillJob
    | KillLiveQuery
    | ExportUserData
    | ExecuteAs
    | Declined
    | Forbidden
)


@dataclass(frozen=True)
class Placed:
    """A statement, and where it begins in the text: line and column count from 1."""

    statement: Statement
    line: int
    column: int
