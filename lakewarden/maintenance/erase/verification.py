"""What the search for an erased user needs to know of the warehouse; the search itself shares no code with this module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.state.erasures import ErasureRequest, is_requested
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.maintenance.verify.search import ErasureSearch, SearchResult, Suspect, search
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import check_user
from lakewarden.tables.warehouse import Warehouse, find_table


def verify_erased(warehouse: Warehouse, user: str, names: Sequence[str], *, deep: bool) -> SearchResult:
    """Runs only the search: is anything of the user left?"""
    catalog = warehouse.catalog.read()
    request = ErasureRequest(check_user(user), tuple(names), "", deep)
    mark = warehouse.erasures.mark(user)
    return search(what_to_search(warehouse, catalog, tables_of_users(catalog, names), request, mark, (), versions=True))


def tables_of_users(catalog: Catalog, names: Sequence[str]) -> list[Table]:
    """The named tables; where none is named all that have users, including those still being dropped.

    Raises:
        NotFound: the table does not exist.
        InvalidArgument: a table is SHARED.
    """
    if not names:
        # Also those whose drop was interrupted: their rows are still there.
        return [table for table in catalog.tables.values() if can(table.type, "a scope per user")]
    found = [find_table(catalog, TableName.parse(name)) for name in names]
    shared = [str(table.name) for table in found if not can(table.type, "a scope per user")]
    if shared:
        raise InvalidArgument(f"{', '.join(shared)}: rows of a SHARED table belong to no user, so none can be erased from it")
    return found


def what_to_search(
    warehouse: Warehouse,
    catalog: Catalog,
    tables: Sequence[Table],
    request: ErasureRequest,
    mark: str,
    exports: tuple[str, ...],
    *,
    versions: bool,
) -> ErasureSearch:
    ids = {table.id for table in tables}
    others = [table for table in catalog.tables.values() if table.id not in ids]
    return ErasureSearch(
        warehouse=warehouse.uri,
        user=request.user,
        mark=mark,
        suspects=tuple(_suspects(warehouse, catalog, tables, everywhere=True)),
        others=tuple(_suspects(warehouse, catalog, others, everywhere=False)),
        storages=tuple(warehouse.location(storage) for storage in catalog.storages.values()),
        exports=exports,
        whole=not request.tables,
        deep=request.deep,
        versions=versions,
    )


def _suspects(warehouse: Warehouse, catalog: Catalog, tables: Iterable[Table], *, everywhere: bool) -> Iterable[Suspect]:
    """Each table at its place; at its place on each storage, where users may have storages of their own, or `everywhere`, since
    it may have been moved from there."""
    for table in tables:
        for storage in catalog.storages.values():
            if everywhere or storage.id == table.options.storage_id or table.options.use_user_storage:
                template = storage.shared_template if table.type == "SHARED" else storage.user_template
                base = warehouse.base(storage)
                yield Suspect(table.id, table.log_id, table.name.namespace, table.name.name, base, template)


# Decides whether a warehouse knows a user: a mistyped id must not get a certificate that says that a user was erased.


def check_known(warehouse: Warehouse, user: str, tables: Sequence[str] = ()) -> None:
    """Checks that there is a trace of the user: in the catalog, a table, the log, an export, an erasure, or a place of data.

    Raises:
        NotFound: there is no trace, or one of these tables does not exist.
        InvalidArgument: the id is not valid, or a table is SHARED.
    """
    tables_of_users(warehouse.catalog.read(), tables)
    if not any(_traces(warehouse, check_user(user))):
        raise NotFound(
            f"nothing is known of a user {user!r}: lakewarden users lists those who have rows; for what may be left of a user"
            " without any, use --even-if-unknown"
        )


def _traces(warehouse: Warehouse, user: str) -> Iterator[bool]:
    """Yields whether there is one of each kind, the cheap ones first."""
    catalog, mark = warehouse.catalog.read(), warehouse.erasures.mark(user)
    tables = [table for table in catalog.tables.values() if can(table.type, "a scope per user")]
    yield user in catalog.users
    for table in tables:
        yield user in warehouse.registry.users(table.id)
    views = warehouse.logs.views().sound
    for table in tables:
        yield (view := views.get(table.log_id)) is not None and user in view.pending
    yield mark in warehouse.erasures.erased()
    yield is_requested(warehouse.state, mark)
    yield bool(warehouse.exports.of(mark))
    for table in tables:  # a registry that was lost forgets scopes whose files exist
        yield can(table.type, "cold tier") and bool(_files(warehouse, catalog, table, user))


def _files(warehouse: Warehouse, catalog: Catalog, table: Table, user: str) -> Sequence[str]:
    return open_store(warehouse.location_of(catalog, table, user)).keys()
