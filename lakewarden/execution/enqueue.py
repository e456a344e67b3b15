"""Queues an operation for a runner, after checking that it can be done."""

from __future__ import annotations

from lakewarden.catalog.moving import begin_move
from lakewarden.errors import InvalidArgument
from lakewarden.operations.evict import evict
from lakewarden.operations.request import Selection
from lakewarden.operations.scopes import named_tables
from lakewarden.scope import Scope
from lakewarden.specs import Queueable
from lakewarden.state.job import Job
from lakewarden.state.jobs import JobLog
from lakewarden.storage.paths import check_user
from lakewarden.warehouse import Warehouse, check_scope


def enqueue(warehouse: Warehouse, jobs: JobLog, operation: Queueable, selection: Selection, to: str | None) -> Job:
    """`to` is the storage of a move.

    Raises:
        NotFound, InvalidArgument, Unsupported, AlreadyActive: as `Lakehouse.enqueue`.
    """
    if operation == "move":
        return _enqueue_move(warehouse, jobs, selection, to)
    if to is not None:
        raise InvalidArgument(f"only a move goes to a storage; {operation} works where the scopes lie")
    if operation == "evict":
        evict(warehouse, selection.tables, selection.user, dry_run=True, job_id="")
    elif operation == "export":
        if selection.tables or selection.user is None:
            raise InvalidArgument("an export takes one user's tables, all of them: name the user, and no table")
        check_user(selection.user)
    else:
        for table in named_tables(warehouse.catalog.read(), selection.tables):
            if selection.user is not None:
                check_scope(table, Scope(table.name, selection.user))
    return jobs.enqueue(operation, selection.parameters)


def _enqueue_move(warehouse: Warehouse, jobs: JobLog, selection: Selection, to: str | None) -> Job:
    if len(selection.tables) != 1 or selection.user is not None or to is None:
        raise InvalidArgument("a move takes one table, with all its users, and the storage that it goes to")
    catalog = warehouse.catalog.read()
    name = named_tables(catalog, selection.tables)[0].name
    begin_move(catalog, name, to, warehouse.base)
    return jobs.enqueue("move", Selection((str(name),)).parameters | {"to": to})
