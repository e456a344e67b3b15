"""Compares the primary keys of rows that are too many to be in memory together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from tempfile import TemporaryDirectory, gettempdir
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakewarden.base.arrays import distinct
from lakewarden.base.quantities import portions
from lakewarden.delta.reading.bounds import Bound, key_bounds
from lakewarden.delta.reading.keys import Key, Keys
from lakewarden.errors import DuplicateKey, StorageUnavailable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

AT_ONCE = 2_000_000
"""Keys that are compared in memory. Of more, DuckDB keeps on disk what does not fit."""

_MOST_BYTES = 64 << 20
"""Of those keys: texts may be long."""

_MEMORY = "256MB"
_BATCH_ROWS = 100_000
"""Rows that go to disk, are compared or come from there together: a table may have ten thousand files of a few hundred rows."""


class SeenKeys:
    """The keys of the rows that went by, in bounded memory. A context: its files end with it. Not for several threads."""

    def __init__(self, primary_key: Sequence[str], at_once: int = AT_ONCE) -> None:
        self._key = list(primary_key)
        self._names = [f"k{place}" for place in range(len(self._key))]
        self._at_once = at_once
        self._held: list[pa.Table] = []
        self._held_rows = self._held_bytes = 0
        self.rows = 0
        self._ends: dict[str, Bound] | None = None
        self._disk: DuckDBPyConnection | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Where rows with these keys may be."""
        return tuple((self._ends or {}).values())

    def add(self, rows: pa.Table) -> None:
        """Raises StorageUnavailable: the disk is full, or failed."""
        if not rows.num_rows:
            return
        keys = rows.select(self._key)
        self.rows += keys.num_rows
        self._widen(key_bounds(self._key, keys))
        self._held.append(keys.rename_columns(self._names))
        self._held_rows += keys.num_rows
        self._held_bytes += keys.nbytes
        most = self._at_once if self._disk is None else min(self._at_once, _BATCH_ROWS)
        if self._held_rows > most or self._held_bytes > _MOST_BYTES:
            self._to_disk()

    def repeated(self) -> int:
        """How many rows have the key of another that was counted. NULL is equal to NULL."""
        if self._disk is None:
            return _repeated(pa.concat_tables(self._held)) if self._held else 0
        self._to_disk()
        return sum(map(_repeated, self._ordered("FROM keys ORDER BY ALL")))

    def check_once(self) -> None:
        """Raises DuplicateKey: a key came twice."""
        if self.repeated():
            key = ", ".join(self._key)
            raise DuplicateKey(f"a key ({key}) is among the rows twice: each row of the table has its own")

    def parts(self) -> Iterator[pa.Table]:
        """The keys again, in parts.

        Raises:
            StorageUnavailable: the disk failed.
        """
        yield from (keys.rename_columns(self._key) for keys in self._held)
        if self._disk is not None:
            yield from (pa.Table.from_batches([batch]).rename_columns(self._key) for batch in self._read("FROM keys"))

    def first_of(self, others: Iterable[pa.Table]) -> Key | None:
        """Returns a key of these that the others have, of which a hundred thousand and a part are in memory at a time; None if
        they have none."""
        given = (part.select(self._key).rename_columns(self._names) for part in others)
        parts = map(pa.concat_tables, portions(given, lambda part: part.num_rows, _BATCH_ROWS))
        if self._disk is not None:
            return self._shared_on_disk(parts)
        if self.rows == 0:
            return None
        mine = Keys(pa.concat_tables(self._held), self._names)
        places = (mine.places(part).drop_null() for part in parts)
        first = next((int(found[0].as_py()) for found in places if len(found)), None)
        return None if first is None else tuple(mine.rows.column(name)[first].as_py() for name in self._names)

    def _widen(self, bounds: Sequence[Bound]) -> None:
        coming = {bound.column: bound for bound in bounds}
        if self._ends is None:
            self._ends = coming
        else:  # a column without bounds in one part has none
            self._ends = {name: _around(self._ends[name], coming[name]) for name in self._ends.keys() & coming.keys()}

    def _shared_on_disk(self, parts: Iterable[pa.Table]) -> Key | None:
        assert self._disk is not None, "there are keys on disk"
        self._to_disk()
        self._disk.execute("TRUNCATE others")
        for part in parts:
            self._store("others", part)
        for run in self._ordered("SELECT *, 0 AS side FROM keys UNION ALL SELECT *, 1 FROM others ORDER BY ALL"):
            sides = run.group_by(self._names).aggregate([("side", "min"), ("side", "max")])
            shared = sides.filter(pc.field("side_min") < pc.field("side_max"))
            if shared.num_rows:
                return tuple(shared.column(name)[0].as_py() for name in self._names)
        return None

    def _ordered(self, query: str) -> Iterator[pa.Table]:
        """The rows of a query in its order, in parts of which each begins with the last row of the one before. Sorted, because
        DuckDB sorts on disk whatever comes; grouped and joined, many texts had to fit into memory.
        """
        last: list[pa.RecordBatch] = []
        for batch in self._read(query):
            yield pa.Table.from_batches([*last, batch])
            last = [batch.slice(batch.num_rows - 1)]

    def _read(self, query: str) -> Iterator[pa.RecordBatch]:
        import duckdb  # as above

        assert self._disk is not None, "there are keys on disk"
        try:
            with closing(self._disk.cursor()) as cursor:
                yield from cursor.sql(query).to_arrow_reader(_BATCH_ROWS)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise _failed(error) from error

    def _to_disk(self) -> None:
        if self._held:
            self._store("keys", pa.concat_tables(self._held))
        self._held, self._held_rows, self._held_bytes = [], 0, 0

    def _store(self, name: str, keys: pa.Table) -> None:
        import duckdb  # as above

        try:
            if self._disk is None:
                self._disk = self._opened(keys)
            self._disk.register("given", keys)
            self._disk.execute(f"INSERT INTO {name} FROM given")
            self._disk.unregister("given")
        except (duckdb.Error, OSError) as error:
            raise _failed(error) from error

    def _opened(self, like: pa.Table) -> DuckDBPyConnection:
        import duckdb  # takes a sixth of a second, which few rows do not need

        folder = self._open.enter_context(TemporaryDirectory(prefix="lakewarden-keys-"))
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": folder,
            "threads": 1,
            "preserve_insertion_order": False,
        }
        disk = self._open.enter_context(duckdb.connect(config=settings))
        disk.execute("SET TimeZone = 'UTC'")
        disk.register("given", like.slice(0, 0))
        for name in ("keys", "others"):
            disk.execute(f"CREATE TABLE {name} AS FROM given")
        return disk


def _repeated(keys: pa.Table) -> int:
    return keys.num_rows - distinct(keys)


def _around(one: Bound, other: Bound) -> Bound:
    """From the lower of the lowest values to the higher of the highest."""
    lows: list[Any] = [one.low, other.low]
    highs: list[Any] = [one.high, other.high]
    return Bound(one.column, min(lows), max(highs))


def _failed(error: Exception) -> StorageUnavailable:
    return StorageUnavailable(
        f"the keys of the rows could not be kept in {gettempdir()}: {error}; nothing was written. TMPDIR names another directory"
    )
