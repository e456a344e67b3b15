"""The rows of a table without a primary key, for its subscribers: direct writes add them, and the log has none of them.

The table itself has every row by its `_seq`, for as long as no direct write changes rows, which ends subscriptions.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.catalog.model import Table
from lakewarden.delta.reading.bounds import Bound
from lakewarden.log.record import SEQ
from lakewarden.log.table_log import TableLog
from lakewarden.tables.reading.scope import Place, ReadSelection, read_cold


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
