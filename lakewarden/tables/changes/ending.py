"""What ends a change feed: changes that no row of the log says, and rows that are no longer kept."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import Table
from lakewarden.delta.reading.bounds import Bound
from lakewarden.errors import BeingErased, Ended, InvalidArgument, NotFound
from lakewarden.log.objects.trail import Trail
from lakewarden.log.position import NOTHING, end_of
from lakewarden.log.record import SEQ
from lakewarden.log.table_log import TableLog
from lakewarden.log.view import Upset
from lakewarden.tables.strong_read import Place, ReadSelection, read_cold

# The rows of a table without a primary key, for its subscribers: direct writes add them, and the log has none of them.
#
# The table itself has every row by its `_seq`, for as long as no direct write changes rows, which ends subscriptions.


def is_keyless(table: Table) -> bool:
    return table.type == "SHARED" and not table.schema.primary_key


def appended_upto(log: TableLog, end: int) -> int:
    """The last `_seq` up to which the table, if it is read after this, has all rows; `end` is of the log, read before."""
    under_way = log.direct_upto()
    return end if under_way is None else min(end, under_way)


def appended(place: Place, after: int, upto: int, columns: tuple[str, ...] | None = None) -> pa.Table:
    """The rows beyond `after`, up to `upto`, ascending by `_seq`; with all columns where none are named."""
    rows = read_cold(place, ReadSelection(columns, (Bound(SEQ, after + 1, upto),)))
    return rows.filter((pc.field(SEQ) > after) & (pc.field(SEQ) <= upto)).sort_by(SEQ)


def there_upto(place: Place, upto: int) -> pa.Table:
    """All rows up to `upto`, and those of other writers."""
    rows = read_cold(place)
    return rows.filter(pc.field(SEQ).is_null() | (pc.field(SEQ) <= upto))


def check_goes_on(table: Table, trail: Trail, after: int, users: Sequence[tuple[str, str]] | None) -> None:
    """Checks that changes after a `_seq` continue what was read up to it.

    Args:
        users: whose changes, with their keyed hashes; None for all users.

    Raises:
        NotFound: the table was dropped.
        Ended: rows were restored, changed directly, or erased since.
        BeingErased: rows of one of the users are being erased.
        InvalidArgument: some changes since are no longer kept; the message names the oldest `_seq` that works.
    """
    upset = trail.upset if users is None else _upset_of(table, trail, users)
    if upset.rewound is not None and after < end_of(upset.rewound):
        raise Ended(
            f"rows of {table.name} were restored or changed directly after _seq {after} was given: what was read no longer holds;"
            f" start again (full, or after _seq {end_of(upset.rewound)})"
        )
    if upset.erased is not None and after < end_of(upset.erased):
        raise Ended(
            f"rows of {table.name} were erased after _seq {after} was given; start again"
            f" (full, or after _seq {end_of(upset.erased)})"
        )
    kept = table.type == "STREAM" or is_keyless(table) or trail.complete_after(after)
    alone = users is None or table.schema.keeps_before  # otherwise the Delta tables of these users show what is missing
    if alone and not kept:
        raise InvalidArgument(
            f"_seq {after} is too old for the changes of {table.name}: later ones are no longer kept (log.retention_seconds);"
            f" the oldest that works is {trail.forgotten}"
        )


def check_known(table: Table, trail: Trail, seq: int) -> None:
    """Raises InvalidArgument: the `_seq` was never given out."""
    if not NOTHING <= seq <= trail.end:
        raise InvalidArgument(f"_seq {seq} is not one that {table.name} has given out; the last is below {trail.end + 1}")


def _upset_of(table: Table, trail: Trail, users: Sequence[tuple[str, str]]) -> Upset:
    signs = {user: trail.signs(mark) for user, mark in users}
    if any(each.dropped for each in signs.values()):
        raise NotFound(f"table {table.name} was dropped")
    if closed := frozenset(user for user, each in signs.items() if each.closed):
        raise BeingErased(closed)
    rewound = [each.rewound for each in signs.values() if each.rewound is not None]
    erased = [each.erased for each in signs.values() if each.erased is not None]
    return Upset(max(rewound, default=None), max(erased, default=None))
