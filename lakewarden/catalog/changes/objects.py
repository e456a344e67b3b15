"""Changes of the catalog as pure functions: they take a catalog and return the next one, or raise and change nothing.

They run inside `CatalogStore.change`, again for each attempt, so that what they check holds when the change counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from lakewarden.base.connection import Connection
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Namespace, Storage, Table, View
from lakewarden.catalog.names import check_namespace, check_storage_id, check_table
from lakewarden.errors import AlreadyExists, InUse, InvalidArgument, NotFound
from lakewarden.storage.location import join, overlaps
from lakewarden.storage.paths import check_template, table_prefix

LOCAL = "local"
LOCAL_BASE = "data"

BaseOf = Callable[[Storage], str]
"""Returns where a storage's tables are, as a full URI: a relative base moves with the warehouse."""


def first_catalog() -> Catalog:
    """Returns the catalog of a new warehouse: the storage `local`, in its own `data/`."""
    local = Storage(LOCAL, "filesystem", LOCAL_BASE, check_template("USER", ""), check_template("SHARED", ""), name=LOCAL)
    return Catalog(storages={LOCAL: local})


def add_namespace(catalog: Catalog, name: str, created_at: datetime) -> Catalog:
    """Its engine is active at once.

    Raises:
        InvalidArgument, AlreadyExists: the name is not valid, or taken (by one that differs in case, `-` and `_`, too).
    """
    check_namespace(name)
    _check_free("namespace", name, {other: other for other in catalog.namespaces})
    return replace(catalog, namespaces={**catalog.namespaces, name: Namespace(name, created_at)})


def describe_namespace(catalog: Catalog, name: str, description: str) -> Catalog:
    """Raises NotFound: no such namespace."""
    if name not in catalog.namespaces:
        raise NotFound(f"there is no namespace {name!r}")
    described = replace(catalog.namespaces[name], description=description)
    return replace(catalog, namespaces={**catalog.namespaces, name: described})


def drop_namespace(catalog: Catalog, name: str, cascade: bool = False) -> Catalog:
    """Drops a namespace. With `cascade` also its tables, whose data and logs the caller has to remove.

    Raises:
        NotFound: no such namespace.
        InUse: it has tables, and `cascade` is not given.
    """
    if name not in catalog.namespaces:
        raise NotFound(f"there is no namespace {name!r}")
    inside = [relation for relation in (*catalog.tables, *catalog.blanks, *catalog.views) if relation.namespace == name]
    if inside and not cascade:
        raise InUse(f"namespace {name!r} still has {len(inside)} tables and views, as {inside[0]}; drop them first, or CASCADE")
    namespaces = {other: namespace for other, namespace in catalog.namespaces.items() if other != name}
    tables = {other: table for other, table in catalog.tables.items() if other.namespace != name}
    views = {other: view for other, view in catalog.views.items() if other.namespace != name}
    blanks = {other: table for other, table in catalog.blanks.items() if other.namespace != name}
    pipelines = {id_: pipeline for id_, pipeline in catalog.pipelines.items() if pipeline.table.namespace != name}
    rules = {id_: rule for id_, rule in catalog.rules.items() if rule.pipeline_id in pipelines}
    return replace(catalog, namespaces=namespaces, tables=tables, views=views, blanks=blanks, pipelines=pipelines, rules=rules)


def add_table(catalog: Catalog, table: Table, base_of: BaseOf) -> Catalog:
    """Raises:
    NotFound: no such namespace or storage.
    InvalidArgument, AlreadyExists: the name is not valid, or taken (also by one that differs only in case).
    InUse: its place is another table's, or one is inside the other.
    """
    name = table.name
    check_table(name.name)
    if name.namespace not in catalog.namespaces:
        raise NotFound(f"there is no namespace {name.namespace!r}; create it first: CREATE NAMESPACE {name.namespace}")
    check_storage(catalog, table.options.storage_id)
    _check_relation_free(catalog, "table", name)
    check_place(catalog, table, table.options.storage_id, base_of)
    return replace(catalog, tables={**catalog.tables, name: table})


def add_blank(catalog: Catalog, table: Table, base_of: BaseOf) -> Catalog:
    """Adds a table of a pipeline, which has no schema yet. Raises as `add_table`."""
    add_table(catalog, table, base_of)
    return replace(catalog, blanks={**catalog.blanks, table.name: table})


def add_view(catalog: Catalog, view: View, *, replacing: bool = False) -> Catalog:
    """Creates a view. With `replacing`, replaces the view of that name.

    Raises:
        NotFound: no such namespace.
        InvalidArgument, AlreadyExists: the name is not valid, or taken by a table or another view.
    """
    check_table(view.name.name)
    if view.name.namespace not in catalog.namespaces:
        raise NotFound(f"there is no namespace {view.name.namespace!r}; create it first: CREATE NAMESPACE {view.name.namespace}")
    if not (replacing and view.name in catalog.views):
        _check_relation_free(catalog, "view", view.name)
    return replace(catalog, views={**catalog.views, view.name: view})


def drop_view(catalog: Catalog, name: TableName) -> Catalog:
    """Raises NotFound: no such view."""
    if name not in catalog.views:
        raise NotFound(f"there is no view {name}")
    return replace(catalog, views={other: view for other, view in catalog.views.items() if other != name})


def replace_table(catalog: Catalog, table: Table, base_of: BaseOf) -> Catalog:
    """Replaces the table by its state after an ALTER.

    Raises:
        NotFound: no such storage.
        InUse: its place on another storage is another table's.
    """
    check_storage(catalog, table.options.storage_id)
    before = catalog.tables[table.name]
    if table.options.storage_id != before.options.storage_id:
        # Without itself, whose old place it may overlap with.
        others = {name: other for name, other in catalog.tables.items() if name != table.name}
        check_place(replace(catalog, tables=others), table, table.options.storage_id, base_of)
    return replace(catalog, tables={**catalog.tables, table.name: table})


def show_table(catalog: Catalog, table: Table) -> Catalog:
    """Shows a table that was added as one whose drop has begun, with what was written to it meanwhile.

    Raises:
        NotFound: it was dropped.
    """
    there = catalog.tables.get(table.name)
    # A table that was dropped and made again under the name is another one.
    if there is None or there.id != table.id:
        raise NotFound(f"{table.name} was dropped while it was filled; create it again")
    return replace(catalog, tables={**catalog.tables, table.name: replace(there, dropping=False)})


def begin_drop(catalog: Catalog, name: TableName) -> Catalog:
    """Hides the table from all callers; `drop_table` follows when its data is gone. Idempotent.

    Raises:
        NotFound: no such table.
        InUse: it is being moved.
    """
    if name not in catalog.tables:
        raise NotFound(f"there is no table {name}")
    check_still(catalog.tables[name])
    return replace(catalog, tables={**catalog.tables, name: replace(catalog.tables[name], dropping=True)})


def drop_table(catalog: Catalog, name: TableName) -> Catalog:
    """Raises NotFound: no such table."""
    if name not in catalog.tables:
        raise NotFound(f"there is no table {name}")
    return replace(catalog, tables={other: table for other, table in catalog.tables.items() if other != name})


def add_storage(catalog: Catalog, storage: Storage) -> Catalog:
    """Raises:
    InvalidArgument, AlreadyExists: the id is not valid, or taken; a bad template or base.
    """
    check_storage_id(storage.id)
    if storage.id in catalog.storages:
        raise AlreadyExists(f"there is a storage {storage.id!r} already")
    if not storage.base.strip():
        raise InvalidArgument(f"storage {storage.id!r} needs a base: a directory, or a URI such as s3://bucket/prefix")
    if "_lakewarden" in storage.base.split("/"):
        raise InvalidArgument(f"storage {storage.id!r}: {storage.base} is inside a warehouse's own _lakewarden/; choose another")
    made = replace(
        storage,
        user_template=check_template("USER", storage.user_template),
        shared_template=check_template("SHARED", storage.shared_template),
        name=storage.name or storage.id,
    )
    return replace(catalog, storages={**catalog.storages, made.id: made})


def alter_storage(
    catalog: Catalog,
    storage_id: str,
    *,
    user_template: str | None = None,
    shared_template: str | None = None,
    name: str | None = None,
    description: str | None = None,
    connection: Callable[[Storage], Connection] | None = None,
) -> Catalog:
    """Changes what is given; `connection` gives the new one from the storage as it is.

    Raises:
        NotFound: no such storage.
        InvalidArgument: a bad template.
        InUse: another template, while tables lie where the old one put them.
    """
    before = storage_of(catalog, storage_id)
    after = replace(
        before,
        user_template=before.user_template if user_template is None else check_template("USER", user_template),
        shared_template=before.shared_template if shared_template is None else check_template("SHARED", shared_template),
        name=before.name if name is None else name or storage_id,
        description=before.description if description is None else description,
        connection=before.connection if connection is None else connection(before),
    )
    moved = {"USER": after.user_template != before.user_template, "SHARED": after.shared_template != before.shared_template}
    left = [
        table.name
        for table in catalog.tables.values()
        # Paths follow from the template: another one would make tables that lie by the old one vanish.
        if storage_id in table.storage_ids and moved.get(table.type, False)  # a STREAM table has no place
    ]
    if left:
        raise InUse(f"storage {storage_id!r} has tables that lie by its old template, as {left[0]}; make a new storage instead")
    return replace(catalog, storages={**catalog.storages, storage_id: after})


def drop_storage(catalog: Catalog, storage_id: str) -> Catalog:
    """Raises:
    NotFound: no such storage.
    InvalidArgument: it is `local`.
    InUse: tables are on it, or it is a user's own.
    """
    storage_of(catalog, storage_id)
    if storage_id == LOCAL:
        raise InvalidArgument("storage 'local' is part of every warehouse and cannot be dropped")
    every = (*catalog.tables.values(), *catalog.blanks.values())
    using = [table.name for table in every if storage_id in table.storage_ids]
    if using:
        raise InUse(f"cannot drop storage {storage_id!r}: {len(using)} table(s) still using it, as {using[0]}")
    owners = [user.user_id for user in catalog.users.values() if user.storage_id == storage_id]
    if owners:
        raise InUse(f"cannot drop storage {storage_id!r}: it is the own storage of {len(owners)} user(s), as {owners[0]!r}")
    return replace(catalog, storages={other: storage for other, storage in catalog.storages.items() if other != storage_id})


def fold_case(catalog: Catalog, storage_id: str) -> Catalog:
    """Marks a storage as one whose place cannot tell `A` from `a` (`storage.probe`).

    Raises:
        NotFound: no such storage.
        InUse: the storage already has tables, whose paths would change.
    """
    storage = storage_of(catalog, storage_id)
    if any(storage_id in table.storage_ids for table in catalog.tables.values()):
        raise InUse(f"storage {storage_id!r} has tables whose paths would change")
    return replace(catalog, storages={**catalog.storages, storage_id: replace(storage, folds_case=True)})


def identify(catalog: Catalog, storage_id: str, identity: str) -> Catalog:
    """Gives a storage its identity, if it has none yet."""
    storage = storage_of(catalog, storage_id)
    known = replace(storage, identity=storage.identity or identity)
    return replace(catalog, storages={**catalog.storages, storage_id: known})


def check_still(table: Table) -> None:
    """Raises InUse: the table is being moved to another storage."""
    if table.move is not None:
        raise InUse(
            f"{table.name} is being moved from storage {table.move.source!r} to {table.move.target!r}: end that first"
            f" (lakewarden move {table.name} --to {table.move.target}), or cancel it (--cancel)"
        )


def table_place(storage: Storage, table: Table, base_of: BaseOf) -> str:
    """Returns the directory that holds all of a table's scopes and nothing else. STREAM tables have none."""
    template = storage.shared_template if table.type == "SHARED" else storage.user_template
    return join(base_of(storage), table_prefix(template, table.name, storage.folds_case))


def check_place(catalog: Catalog, table: Table, storage_id: str, base_of: BaseOf) -> None:
    """Raises InUse: on that storage the table would be at the place of another, or inside it, or around it."""
    if not can(table.type, "cold tier"):
        return
    storage = catalog.storages[storage_id]
    place = table_place(storage, table, base_of)
    for other in (*catalog.tables.values(), *catalog.blanks.values()):
        if not can(other.type, "cold tier"):
            continue
        # While it is moved, a table has two places.
        for beside in (catalog.storages[each] for each in other.storage_ids):
            taken = table_place(beside, other, base_of)
            # Two storages may lie on one disk, and what one of them folds is one name there.
            if overlaps(place, taken, storage.folds_case or beside.folds_case):
                raise InUse(f"table {table.name} would be at {place}, but {other.name} is at {taken}: choose another storage")


def _check_relation_free(catalog: Catalog, kind: str, name: TableName) -> None:
    """Tables and views share their names: a query could not tell them apart."""
    _check_free(kind, str(name), {str(other): str(other) for other in (*catalog.tables, *catalog.blanks, *catalog.views)})


def check_storage(catalog: Catalog, storage_id: str) -> None:
    """Raises NotFound: there is no such storage for tables or users."""
    if storage_id not in catalog.storages:
        raise NotFound(f"Storage {storage_id!r} does not exist; the storages are {', '.join(catalog.storages)}")


def _check_free(kind: str, name: str, there: dict[str, str]) -> None:
    taken = {_folded(other): other for other in there}.get(_folded(name))
    if taken is not None:
        how = "case" if taken.lower() == name.lower() else "case, '-' and '_'"
        differs = "" if taken == name else f" ({taken!r}: names that differ only in {how} count as the same)"
        raise AlreadyExists(f"there is a {kind} {name!r} already{differs}")


def _folded(name: str) -> str:
    """The spelling that names of jobs and steps in Dagster have in common."""
    return name.lower().replace("-", "_")


def storage_of(catalog: Catalog, storage_id: str) -> Storage:
    if storage_id not in catalog.storages:
        raise NotFound(f"there is no storage {storage_id!r}; there are {', '.join(catalog.storages)}")
    return catalog.storages[storage_id]


# Views of views: none may read itself.
Reads = Callable[[View], Iterable[TableName]]
"""The tables and views that the query of a view names, those inside of other views apart."""


def check_view_of_itself(catalog: Catalog, view: View, reads: Reads) -> None:
    """Follows a view's query through the views of the catalog, which holds it already. Names in SQL ignore case.

    Raises:
        InvalidArgument: the view reads itself. No query could.
    """
    views = {_without_case(name): one for name, one in catalog.views.items()}
    ways: dict[str, tuple[str, ...]] = {_without_case(view.name): ()}
    left = [view]
    while left:
        reader = left.pop()
        way = ways[_without_case(reader.name)]
        for name in map(_without_case, reads(reader)):
            if name == _without_case(view.name):
                through = f" through {', '.join(way)}" if way else ""
                raise InvalidArgument(f"view {view.name} would read itself{through}; name what it is to read instead")
            if name in views and name not in ways:
                ways[name] = (*way, str(views[name].name))
                left.append(views[name])


def _without_case(name: TableName) -> str:
    return str(name).lower()
