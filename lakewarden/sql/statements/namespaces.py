"""Namespaces, their engines and views (kalamdb.md 1.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from sqlglot import exp

from lakewarden.catalog.changes.engines import engine_changed_at, engine_id, namespace_of
from lakewarden.catalog.changes.objects import describe_namespace
from lakewarden.maintenance.admin.namespaces import make_namespace, make_view, remove_namespace, remove_view, switch_engine
from lakewarden.maintenance.drop import drop_now
from lakewarden.sql.context import Context
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.ref import Ref
from lakewarden.sql.relations import read_by_view
from lakewarden.sql.results import ResultRows, StatementDone, listing
from lakewarden.sql.rights import in_warehouse
from lakewarden.sql.statement import (
    AuditEntrySpec,
    C,
    Grammar,
    ListStatement,
    SessionStatement,
    Statement,
    StatementSpec,
    registered,
)
from lakewarden.sql.statements.clauses import if_exists, if_not_exists
from lakewarden.sql.system_listings import MOMENT, WHOLE, tables_by_namespace, texts


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
class UseNamespace(SessionStatement):
    name: str

    def choose(self, before: C) -> C:
        return replace(before, namespace=self.name)


@dataclass(frozen=True)
class EnableEngine(Statement):
    name: str
    settings: str | None = None
    """None leaves those that the engine has."""


@dataclass(frozen=True)
class DisableEngine(Statement):
    name: str


@dataclass(frozen=True)
class ShowEngines(ListStatement):
    """Lists the engines of all namespaces."""


def read_alter_namespace(read: StatementReader) -> Statement:
    name = read.namespace()
    read.expect("SET", "DESCRIPTION")
    return AlterNamespace(name, read.text("a description"))


def read_use(read: StatementReader) -> Statement:
    """Reads what follows USE."""
    read.word("NAMESPACE")
    return UseNamespace(read.namespace())


def create_namespace(context: Context, statement: CreateNamespace) -> StatementDone:
    if statement.if_not_exists and statement.name in context.catalog.namespaces:
        return StatementDone(f"namespace {statement.name} already exists")
    make_namespace(context.warehouse, statement.name)
    return StatementDone(f"namespace {statement.name} created")


def drop_namespace(context: Context, statement: DropNamespace) -> StatementDone:
    if statement.if_exists and statement.name not in context.catalog.namespaces:
        return StatementDone(f"skipped: there is no namespace {statement.name}")
    drop = partial(drop_now, context.services.operator()) if statement.cascade else None
    remove_namespace(context.warehouse, statement.name, drop)
    return StatementDone(f"namespace {statement.name} dropped")


def alter_namespace(context: Context, statement: AlterNamespace) -> StatementDone:
    context.warehouse.catalog.change(lambda before: describe_namespace(before, statement.name, statement.description))
    return StatementDone(f"namespace {statement.name} altered")


def use_namespace(context: Context, statement: UseNamespace) -> StatementDone:
    namespace_of(context.catalog, statement.name)
    return StatementDone(f"namespace {statement.name} is in use")


# Executes the statements about engines.
def enable_engine(context: Context, statement: EnableEngine) -> StatementDone:
    switch_engine(context.warehouse, statement.name, active=True, settings=statement.settings)
    return StatementDone(f"engine of namespace {statement.name} enabled")


def disable_engine(context: Context, statement: DisableEngine) -> StatementDone:
    switch_engine(context.warehouse, statement.name, active=False)
    return StatementDone(f"engine of namespace {statement.name} disabled")


def show_engines(context: Context, _: ShowEngines) -> ResultRows:
    columns = texts("namespace_id", "engine_id", "status", "settings") | {"table_count": WHOLE}
    columns |= {"created_at": MOMENT, "updated_at": MOMENT}
    counts = tables_by_namespace(context.catalog)
    return listing(
        columns,
        [
            {
                "namespace_id": one.name,
                "engine_id": engine_id(one),
                "status": "active" if one.engine.active else "disabled",
                "settings": one.engine.settings,
                "table_count": counts[one.name],
                "created_at": one.created_at,
                "updated_at": engine_changed_at(one),
            }
            for one in context.catalog.namespaces.values()
        ],
    )


@dataclass(frozen=True)
class CreateView(Statement):
    view: Ref
    text: str
    """The query as written."""
    query: exp.Query
    or_replace: bool = False
    if_not_exists: bool = False
    keeps_its_query: ClassVar[str] = ": a view outlives the session, and so reads tables of the warehouse only"

    def queries(self) -> Iterator[exp.Expr]:
        yield self.query


@dataclass(frozen=True)
class DropView(Statement):
    view: Ref
    if_exists: bool = False


def read_create_view(read: StatementReader, *, or_replace: bool = False) -> Statement:
    missing = if_not_exists(read)
    view = read.ref("a view")
    read.expect("AS")
    start = read.here
    query = read.query()
    return CreateView(view, read.since(start), query, or_replace, missing)


def read_replaced_view(read: StatementReader) -> Statement:
    """Reads what follows CREATE OR REPLACE."""
    read.expect("VIEW")
    return read_create_view(read, or_replace=True)


def create_view(context: Context, statement: CreateView) -> StatementDone:
    name = context.named(statement.view)
    if statement.if_not_exists and name in context.catalog.views:
        return StatementDone(f"view {name} already exists")
    make_view(context.warehouse, name, statement.text, read_by_view, replacing=statement.or_replace)
    return StatementDone(f"view {name} created")


def drop_view(context: Context, statement: DropView) -> StatementDone:
    name = context.named(statement.view)
    if statement.if_exists and name not in context.catalog.views:
        return StatementDone(f"skipped: there is no view {name}")
    remove_view(context.warehouse, name)
    return StatementDone(f"view {name} dropped")


ROWS = registered(
    StatementSpec(
        "CREATE NAMESPACE [IF NOT EXISTS] n",
        "creates a namespace",
        in_warehouse("manage namespaces"),
        create_namespace,
        audited=AuditEntrySpec("CREATE_NAMESPACE", "namespace", "name"),
    ),
    StatementSpec(
        "ALTER NAMESPACE n SET DESCRIPTION '…'",
        "describes a namespace",
        in_warehouse("manage namespaces"),
        alter_namespace,
        audited=AuditEntrySpec("ALTER_NAMESPACE", "namespace", "name"),
    ),
    StatementSpec(
        "DROP NAMESPACE [IF EXISTS] n [CASCADE]",
        "removes a namespace; with CASCADE its tables too",
        in_warehouse("manage namespaces"),
        drop_namespace,
        audited=AuditEntrySpec("DROP_NAMESPACE", "namespace", "name"),
    ),
    StatementSpec("USE n", "chooses the session's namespace", in_warehouse("look at what exists"), use_namespace),
    StatementSpec(
        "ENABLE ENGINE n [SETTINGS '{…}']",
        "enables the engine of a namespace",
        in_warehouse("manage namespaces"),
        enable_engine,
        audited=AuditEntrySpec("ENABLE_ENGINE", "namespace", "name"),
    ),
    StatementSpec(
        "DISABLE ENGINE n",
        "disables the engine of a namespace: its tables take no reads, writes and jobs; nothing is deleted",
        in_warehouse("manage namespaces"),
        disable_engine,
        audited=AuditEntrySpec("DISABLE_ENGINE", "namespace", "name"),
    ),
    StatementSpec("SHOW ENGINES", "lists the engines of namespaces", in_warehouse("manage namespaces"), show_engines),
    StatementSpec(
        "CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v AS SELECT …",
        "keeps a query under a name",
        in_warehouse("create views"),
        create_view,
        audited=AuditEntrySpec("CREATE_VIEW", "view", "view"),
    ),
    StatementSpec(
        "DROP VIEW [IF EXISTS] v",
        "removes a view",
        in_warehouse("create views"),
        drop_view,
        audited=AuditEntrySpec("DROP_VIEW", "view", "view"),
    ),
)

# The parts of a call are read in its order.
GRAMMARS: Mapping[str, Grammar] = {
    "CREATE NAMESPACE": lambda read: CreateNamespace(if_not_exists=if_not_exists(read), name=read.namespace()),
    "ALTER NAMESPACE": read_alter_namespace,
    "DROP NAMESPACE": lambda read: DropNamespace(if_exists=if_exists(read), name=read.namespace(), cascade=read.word("CASCADE")),
    "USE": read_use,
    "SET NAMESPACE": read_use,
    "ENABLE ENGINE": lambda read: EnableEngine(read.namespace(), read.text("the settings") if read.word("SETTINGS") else None),
    "DISABLE ENGINE": lambda read: DisableEngine(read.namespace()),
    "CREATE VIEW": read_create_view,
    "CREATE OR REPLACE": read_replaced_view,
    "DROP VIEW": lambda read: DropView(if_exists=if_exists(read), view=read.ref("a view")),
}
