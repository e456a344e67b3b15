"""Statements about tables and views."""

from __future__ import annotations

from dataclasses import dataclass

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
