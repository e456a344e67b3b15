"""How a Delta table keeps who wrote to it: a transaction identifier for each writer, with the number of its last write."""

from __future__ import annotations

from lakewarden.delta.table import ScopeTable
from lakewarden.log.once import ANY, LastBatch

_ONCE, _CERTAIN = "lakewarden/once", "lakewarden/certain"


def transaction_app(table_id: str, writer: str) -> str:
    """The application id in Delta: a table that is made in the place of a dropped one has none of its writes."""
    return f"{_ONCE}/{table_id}/{writer}"


def is_writer(app: str) -> bool:
    """Whether an application id in Delta is a writer's."""
    return app.startswith(f"{_ONCE}/")


def writer_of(app: str) -> str:
    """The writer whose application id that is."""
    return app.removeprefix(f"{_ONCE}/").partition("/")[2]


def certain_app(app: str) -> str:
    """The application id of a writer's last certain write, where its last one is not (`log.once`)."""
    return f"{_CERTAIN}/{app.removeprefix(f'{_ONCE}/')}"


def last_write(table: ScopeTable, app: str) -> LastBatch:
    """The last write of a writer that the table has."""
    kept = table.watermark(app)
    return LastBatch.of(table.watermark(_any(app)) if kept is None else kept)


def last_certain(table: ScopeTable, app: str) -> int | None:
    """The last one that is certain, of a writer whose last one is not; None without one."""
    return LastBatch.of(table.watermark(certain_app(app))).number


def _any(app: str) -> str:
    return f"{app.removesuffix(writer_of(app))}{ANY}"
