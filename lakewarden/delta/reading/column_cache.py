"""What a process keeps of tables that it reads: snapshots that were opened before, and columns of data files.

Whether a snapshot is still the newest, a look at two names in the log tells. A data file never changes, and another one never has
its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewarden.base.recent import Recent
from lakewarden.delta.parquet.schema import field_id, fitted

if TYPE_CHECKING:
    from lakewarden.base.connection import Location
    from lakewarden.catalog.target import ScopeTarget
    from lakewarden.delta.parquet.files import DataFile
    from lakewarden.delta.parquet.reading import OpenDataFile
    from lakewarden.delta.table import ScopeTable


class TableCache:
    """The newest snapshots of the tables that were read last, for reading alone; safe for threads."""

    def __init__(self, max_tables: int = 64) -> None:
        self._kept: Recent[Location, ScopeTable] = Recent(max_tables)

    def open(self, target: ScopeTarget) -> ScopeTable | None:
        """As `open_scope`."""
        from lakewarden.delta.commit_log.commits import CommitLog  # Delta: not for a warehouse that is opened for something else
        from lakewarden.delta.scope import compared, open_scope
        from lakewarden.storage.open import open_store

        location = target.location
        kept = self._kept.get(location)
        # by its digest: versions may count anew where a dropped table has long been swept away
        if kept is not None and CommitLog(open_store(location)).ends_with(kept.version, kept.digest):
            return compared(kept, target)
        table = open_scope(target)
        if table is None or not table.digest:
            self._kept.forget(location)
        else:
            self._kept.put(location, table)
        return table


_SHARE = 4
"""A file with more than this part of all the bytes would push out the others for one reader."""


@dataclass(frozen=True)
class _Kept:
    """The columns that were read of a file so far, as they stand in it; `names` are those of all its columns, by id."""

    names: Mapping[int, str]
    columns: pa.Table


class ColumnCache:
    """The columns that were read last, bounded by their bytes; safe for threads. 0 bytes keep nothing.

    Files of other writers are left out: what their columns mean depends on the version that names them.
    """

    def __init__(self, max_bytes: int) -> None:
        self._kept: Recent[tuple[str, DataFile], _Kept] = Recent(max_bytes, _SHARE)

    def rows(
        self, uri: str, file: DataFile, wanted: pa.Schema, column_ids: Mapping[str, int], open_: Callable[[], OpenDataFile]
    ) -> pa.Table:
        """As `OpenDataFile.read`; opens the file only for columns that are not kept."""
        key = (uri, file)
        kept = self._kept.get(key)
        if kept is None or _missing(kept, wanted):
            opened = open_()
            if opened.footer.schema_version is None:
                return opened.read(wanted, column_ids)
            kept = _with_more(kept, opened, wanted, column_ids)
            self._kept.put(key, kept, kept.columns.nbytes)
        return fitted(kept.columns, wanted, kept.names, file.path)


@dataclass(frozen=True)
class ColdCache:
    """What a process keeps of tables that it reads."""

    tables: TableCache
    columns: ColumnCache


def _missing(kept: _Kept, wanted: pa.Schema) -> list[str]:
    """Columns of the file that are wanted and were not read yet."""
    names = [kept.names[id_] for field in wanted if (id_ := field_id(field)) in kept.names]
    return [name for name in names if name not in kept.columns.column_names]


def _with_more(kept: _Kept | None, opened: OpenDataFile, wanted: pa.Schema, column_ids: Mapping[str, int]) -> _Kept:
    names = opened.names(column_ids)
    before = kept or _Kept(names, pa.table({}))
    more = opened.columns(_missing(before, wanted), column_ids, use_threads=True)
    if not before.columns.num_columns:
        return _Kept(names, more)
    for name in more.column_names:
        before = _Kept(names, before.columns.append_column(name, more.column(name)))
    return before
