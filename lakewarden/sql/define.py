"""Statements that say what there is to be: namespaces, tables, views, storages, users."""

from __future__ import annotations

from collections import Counter

from lakewarden.errors import AlreadyExists, InvalidArgument, NotFound
from lakewarden.sql import statements as of
from lakewarden.sql.context import Context
from lakewarden.sql.later import later
from lakewarden.sql.results import Done


def create_namespace(context: Context, statement: of.CreateNamespace) -> Done:
    if statement.if_not_exists and statement.name in context.catalog().namespaces:
        return Done(f"namespace {statement.name} already exists")
    context.lake.create_namespace(statement.name)
    return Done(f"namespace {statement.name} created")


def drop_namespace(context: Context, statement: of.DropNamespace) -> Done:
    if statement.if_exists and statement.name not in context.catalog().namespaces:
        return Done(f"skipped: there is no namespace {statement.name}")
    context.lake.drop_namespace(statement.name, cascade=statement.cascade)
    return Done(f"namespace {statement.name} dropped")


def use_namespace(context: Context, statement: of.UseNamespace) -> Done:
    if statement.name not in context.catalog().namespaces:
        raise NotFound(f"there is no namespace {statement.name!r}; there are {', '.join(context.catalog().namespaces) or 'none'}")
    context.namespace = statement.name
    return Done(f"namespace {statement.name} is in use")


def create_table(context: Context, statement: of.CreateTable) -> Done:
    name = context.named(statement.table)
    catalog = context.catalog()
    if statement.if_not_exists and name in catalog.tables and not catalog.tables[name].dropping:
        return Done(f"table {name} already exists")
    context.lake.create_table(
        str(name),
        type=statement.type,  # type: ignore[arg-type]  # any text: `catalog.options.check_type` says whether it is a type
        columns=statement.columns,
        primary_key=_key(statement),
        options=options_of(statement.options),
    )
    return Done(f"table {name} created")


def _key(statement: of.CreateTable) -> list[str]:
    """The key's columns as they are declared: SQL's names have no case."""
    declared = {column.name.lower(): column.name for column in statement.columns}
    return [declared.get(name.lower(), name) for name in statement.primary_key]


def options_of(pairs: of.Pairs) -> dict[str, str]:
    """Raises:
    InvalidArgument: an option stands there twice.
    """
    twice = [key for key, count in Counter(key.upper() for key, _ in pairs).items() if count > 1]
    if twice:
        raise InvalidArgument(f"option {twice[0]} is given twice")
    return dict(pairs)


def alter_table(context: Context, statement: of.AlterTable) -> Done:
    table = context.table(statement.table)
    if not isinstance(statement.change, of.SetProperties):
        raise later("a change of a table's columns")
    context.lake.alter_table_options(str(table.name), options_of(statement.change.properties))
    return Done(f"table {table.name} altered")


def drop_table(context: Context, statement: of.DropTable) -> Done:
    name = context.named(statement.table)
    catalog = context.catalog()
    if name in catalog.views:
        raise InvalidArgument(f"{name} is a view; drop it by DROP VIEW {name}")
    table = catalog.tables.get(name)
    if table is None and statement.if_exists:
        return Done(f"skipped: there is no table {name}")
    if table is not None and statement.type not in (None, table.type):
        raise InvalidArgument(f"{name} is a {table.type} table, not a {statement.type} one")
    context.lake.drop_table(str(name))
    return Done(f"table {name} dropped")


def create_view(context: Context, statement: of.CreateView) -> Done:
    name = context.named(statement.view)
    if statement.if_not_exists and name in context.catalog().views:
        return Done(f"view {name} already exists")
    context.lake.create_view(str(name), statement.text, or_replace=statement.or_replace)
    return Done(f"view {name} created")


def drop_view(context: Context, statement: of.DropView) -> Done:
    name = context.named(statement.view)
    if statement.if_exists and name not in context.catalog().views:
        return Done(f"skipped: there is no view {name}")
    context.lake.drop_view(str(name))
    return Done(f"view {name} dropped")


def create_storage(context: Context, statement: of.CreateStorage) -> Done:
    if statement.credentials or statement.config or statement.region:
        raise later("CREDENTIALS, CONFIG or REGION of a storage: credentials come from the environment, and no catalog keeps them;")
    if statement.id in context.catalog().storages:
        raise AlreadyExists(f"there is a storage {statement.id!r} already")
    context.lake.create_storage(
        statement.id,
        type=statement.type,
        base=statement.base,
        user_template=statement.user_template,
        shared_template=statement.shared_template,
        name=statement.name,
        description=statement.description,
    )
    return Done(f"storage {statement.id} created")


def alter_storage(context: Context, statement: of.AlterStorage) -> Done:
    if statement.config is not None:
        raise later("CONFIG of a storage")
    context.lake.alter_storage(
        statement.id,
        user_template=statement.user_template,
        shared_template=statement.shared_template,
        name=statement.name,
        description=statement.description,
    )
    return Done(f"storage {statement.id} altered")


def drop_storage(context: Context, statement: of.DropStorage) -> Done:
    if statement.if_exists and statement.id not in context.catalog().storages:
        return Done(f"skipped: there is no storage {statement.id}")
    context.lake.drop_storage(statement.id)
    return Done(f"storage {statement.id} dropped")
