"""Columns of data files, kept in memory: a data file never changes, and another one never has its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewarden.base.recent import Recent
from lakewarden.delta.parquet.fitting import field_id, fitted
from lakewarden.delta.reading.reopening import TableCache

if TYPE_CHECKING:
    from lakewarden.delta.parquet.files import DataFile
    from lakewarden.delta.parquet.reading import OpenDataFile

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
