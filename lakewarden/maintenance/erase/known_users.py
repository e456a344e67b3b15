"""Decides whether a warehouse knows a user: a mistyped id must not get a certificate that says that a user was erased."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from lakewarden.catalog.access import can
from lakewarden.catalog.model import Catalog, Table
from lakewarden.catalog.state.erasures import is_requested
from lakewarden.errors import NotFound
from lakewarden.maintenance.erase.verification import tables_of_users
from lakewarden.storage.objects import keys_of
from lakewarden.storage.open import open_store
from lakewarden.storage.paths import check_user
from lakewarden.tables.warehouse import Warehouse

_EVER = datetime.min.replace(tzinfo=UTC)


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
    yield warehouse.erasures.since(mark, _EVER)
    yield is_requested(warehouse.state, mark)
    yield bool(warehouse.exports.of(mark))
    for table in tables:  # a registry that was lost forgets scopes whose files exist
        yield can(table.type, "cold tier") and bool(_files(warehouse, catalog, table, user))


def _files(warehouse: Warehouse, catalog: Catalog, table: Table, user: str) -> list[str]:
    return keys_of(open_store(warehouse.bare_target(catalog, table, user).location))
