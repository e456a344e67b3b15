"""Statements that define what exists: tables, views, dynamic tables, pipelines, namespaces, storages, users, the warehouse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from lakewarden.catalog.evolution import AddColumn, AddColumns, DropColumn, ModifyColumn, RenameColumn, SetDefault, SetNullable
from lakewarden.catalog.model import Column
from lakewarden.sql.statements.base import OnTable, Pairs, Ref, Statement


@dataclass(frozen=True)
class CreateTable(OnTable):
    type: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    options: Pairs = ()
    if_not_exists: bool = False
    partition_by: tuple[str, ...] = ()
    dynamic: bool | None = False
    """None: the session decides, for a table whose type is not said."""


@dataclass(frozen=True)
class CreateTemporaryTable(OnTable):
    """CREATE TEMPORARY TABLE: as `declared`, for the session alone."""

    declared: CreateTable


@dataclass(frozen=True)
class DropTemporaryTable(OnTable):
    if_exists: bool = False


@dataclass(frozen=True)
class CreateTableAs(OnTable):
    """CREATE TABLE … AS: the columns are those of the query."""

    type: str
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    query: exp.Query
    options: Pairs = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class SetProperties:
    properties: Pairs


TableChange = AddColumn | AddColumns | DropColumn | ModifyColumn | RenameColumn | SetNullable | SetDefault | SetProperties


@dataclass(frozen=True)
class AlterTable(OnTable):
    change: TableChange


@dataclass(frozen=True)
class DropTable(OnTable):
    """`type` is the one of the prefix, as in DROP USER TABLE; None without one."""

    type: str | None = None
    if_exists: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class CreateView(Statement):
    view: Ref
    text: str
    """The query as written."""
    query: exp.Query
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropView(Statement):
    view: Ref
    if_exists: bool = False


# Statements about namespaces.
@dataclass(frozen=True)
class CreateNamespace(Statement):
    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropNamespace(Statement):
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AlterNamespace(Statement):
    name: str
    description: str


@dataclass(frozen=True)
class UseNamespace(Statement):
    name: str


@dataclass(frozen=True)
class EnableEngine(Statement):
    name: str
    settings: str | None = None
    """None leaves those that the engine has."""


@dataclass(frozen=True)
class DisableEngine(Statement):
    name: str


@dataclass(frozen=True)
class ShowEngines(Statement):
    """Lists the engines of all namespaces."""


# Statements about storages.
@dataclass(frozen=True)
class CreateStorage(Statement):
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
class AlterStorage(Statement):
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
class DropStorage(Statement):
    id: str
    if_exists: bool = False


@dataclass(frozen=True)
class CheckStorage(Statement):
    id: str
    extended: bool = False


# Statements about users.
@dataclass(frozen=True)
class CreateUser(Statement):
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
class AlterUser(Statement):
    """Sets one field; `value` is None for NULL."""

    name: str
    field: Literal["password", "role", "email", "storage_mode", "storage_id"]
    value: str | None

    def __repr__(self) -> str:
        return f"AlterUser(name={self.name!r}, field={self.field!r})"  # no secret in a trace


@dataclass(frozen=True)
class DropUser(Statement):
    name: str
    if_exists: bool = False


# Statements about pipelines and their rules.
@dataclass(frozen=True)
class CreateFromTemplate(OnTable):
    """CREATE SHARED TABLE … FROM TEMPLATE: the template owns the schema. A list among the options is the text of a JSON list."""

    template: str
    options: Pairs = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropPipeline(Statement):
    pipeline: str
    if_exists: bool = False


@dataclass(frozen=True)
class AlterRule(Statement):
    rule: str
    changes: Pairs


@dataclass(frozen=True)
class ShowRules(Statement):
    namespace: str | None = None


@dataclass(frozen=True)
class ShowPipelines(Statement):
    namespace: str | None = None


# Statements about dynamic tables.
PartitionSpec = tuple[tuple[str, str | None], ...]
"""`dt = 'x', hr = 3` as written: columns and values, None for NULL."""


@dataclass(frozen=True)
class DescribeExtended(OnTable):
    partition: PartitionSpec | None = None


@dataclass(frozen=True)
class CompactTable(OnTable):
    """ALTER TABLE t COMPACT."""


@dataclass(frozen=True)
class DropPartition(OnTable):
    """ALTER TABLE t DROP PARTITION (…)."""

    partition: PartitionSpec
    if_exists: bool = False


# Statements about the whole warehouse.
@dataclass(frozen=True)
class AlterWarehouse(Statement):
    """Changes settings."""

    settings: Pairs


@dataclass(frozen=True)
class ShowSettings(Statement):
    """Lists them."""
