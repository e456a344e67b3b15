"""Resumes a writer of direct writes whose last one is uncertain since a repair (`log.once`)."""

from __future__ import annotations

from lakewarden.catalog.model import Table
from lakewarden.delta.scope import open_scope
from lakewarden.log.once import LastBatch, Resume
from lakewarden.tables.direct.commit import DirectWrite
from lakewarden.tables.direct.effects import Keep
from lakewarden.tables.direct.identities import last_certain, last_write, transaction_app
from lakewarden.tables.direct.run import DirectRun
from lakewarden.tables.direct.value import WriteIdentity
from lakewarden.tables.warehouse import Warehouse


def resume(warehouse: Warehouse, table: Table, writer: str, how: Resume, end: int | None = None) -> None:
    """Says from where the writer goes on. Of a writer whose last write is certain it changes nothing.

    Args:
        end: the number up to which `skip` leaves out where the last one is not known.

    Raises:
        Conflict, NotFound, StorageUnavailable: as `DirectRun.run`.
    """
    opened, app = open_scope(warehouse.target_of(warehouse.catalog.read(), table, None)), transaction_app(table.id, writer)
    if opened is None or (last := last_write(opened, app)).certain:
        return
    skipped = end if last.number is None else last.number
    resume_at(warehouse, table, writer, how, last_certain(opened, app) if how == "repeat" else skipped)


def resume_at(warehouse: Warehouse, table: Table, writer: str, how: Resume, number: int | None) -> None:
    """The same behind that number; None for the start."""
    once = WriteIdentity(transaction_app(table.id, writer), LastBatch(number).kept, resumes=True)
    DirectRun(warehouse, table, DirectWrite("WRITE", Keep(), (), {"mode": "Append", "resume": how}, once)).run()
