"""The files that a direct write makes, and the `_seq` of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from lakewarden.base.arrays import numbers
from lakewarden.base.clock import NewId
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.change_files import ChangeFile, with_type, write_changes
from lakewarden.delta.parquet.files import NewFile, direct_name, write_files
from lakewarden.delta.parquet.schema import SEQ, rows_schema
from lakewarden.log.position import WHOLE, end_of, seq_of
from lakewarden.storage.open import open_store
from lakewarden.tables.direct.parts import in_parts
from lakewarden.tables.direct.shuffle import PartWriter, shuffled
from lakewarden.tables.direct.value import Given, Reserve, TaskFiles
from lakewarden.tables.fanout import run_here


class Numbers:
    """Gives rows their `_seq`: the numbers of one position of the log, and of further ones where a write has more rows.

    A position is taken when the first number is needed, so a write that changes nothing takes none.
    """

    def __init__(self, take: Callable[[], int]) -> None:
        """`take` takes the next position of the log."""
        self._take = take
        self._position: int | None = None
        self._given = 0

    @property
    def position(self) -> int:
        """The last position that was taken."""
        if self._position is None:
            self._position = self._take()
        return self._position

    @property
    def taken(self) -> int | None:
        """The same, None where none was needed."""
        return self._position

    @property
    def end(self) -> int:
        """The last possible `_seq` that was given."""
        return end_of(self.position)

    def renew(self) -> None:
        """The rows that come next have higher numbers than any that is in the table now."""
        self._position, self._given = None, 0

    def reserve(self, count: int) -> int:
        """Returns the first of so many consecutive numbers, at most `WHOLE`."""
        if self._given + count > WHOLE:
            self.renew()
        first = seq_of(self.position, self._given)
        self._given += count
        return first


class Outputs:
    """Writes data files that no commit names yet."""

    def __init__(self, target: ScopeTarget, reserve: Reserve, new_id: NewId, *, numbered: bool = True) -> None:
        """
        Args:
            numbered: whether new rows get a `_seq`.
        """
        self._target = target
        self._reserve = reserve
        self._numbered = numbered
        self._new_id = new_id
        self._made: list[str] = []

    def fresh(self, given: Given) -> tuple[NewFile, ...]:
        """Writes new rows, to files of about the table's target size, one after the other; or has tasks write them."""
        if isinstance(given, TaskFiles):
            return self.took(given.write(self._target, self._reserve))
        batches = (each if isinstance(each, pa.Table) else pa.Table.from_batches([each]) for each in given)
        parts = in_parts((self.numbered(rows) for rows in batches if rows.num_rows), self._target.target_file_size)
        first = next(parts, None)
        return () if first is None else (*self.write(first), *self._together(parts))

    def reserve(self, count: int) -> int:
        """Returns the first of so many `_seq`, for rows that others write."""
        return self._reserve(count)

    def took(self, files: Iterable[NewFile], changes: Iterable[ChangeFile] = ()) -> tuple[NewFile, ...]:
        """Answers for files that others wrote, as for its own."""
        made = tuple(files)
        self._made += [*(file.path for file in made), *(file.path for file in changes)]
        return made

    def numbered(self, rows: pa.Table) -> pa.Table:
        """The rows in the types of the table, with their `_seq`, or NULL there."""
        schema = rows_schema(self._target.schema)
        own = schema.remove(schema.get_field_index(SEQ))
        if not self._numbered:
            return rows.select(own.names).cast(own).append_column(SEQ, pa.nulls(rows.num_rows, pa.int64()))
        counts = [min(WHOLE, rows.num_rows - start) for start in range(0, rows.num_rows, WHOLE)]
        parts = [numbers(np.arange(first, first + count)) for first, count in ((self._reserve(each), each) for each in counts)]
        return rows.select(own.names).cast(own).append_column(SEQ, pa.chunked_array(parts, pa.int64()))

    def write(self, rows: pa.Table) -> list[NewFile]:
        """Writes rows that have their `_seq`, to a file for each partition."""
        made = write_files(self._target, rows, partial(direct_name, self._new_id))
        self._made += [file.path for file in made]
        return made

    def _together(self, parts: Iterator[pa.Table]) -> Iterable[NewFile]:
        """Writes further parts, with the rows of a partition together: a file in each partition for each part would be many."""
        writer = PartWriter(self._target, self._new_id)
        for part in parts:
            self._made += writer.write(part)
        return self.took(shuffled(run_here, self._target, [writer.written()]))

    def changed(self, rows: pa.Table, word: str) -> list[ChangeFile]:
        """Writes, for readers of a change data feed, that these rows came or went."""
        made = write_changes(self._target, with_type(rows, word), self._new_id)
        self._made += [file.path for file in made]
        return made

    def discard(self, paths: Iterable[str] | None = None) -> None:
        """Deletes what no commit names: these files, or all that were written."""
        gone = set(self._made if paths is None else paths)
        self._made = [path for path in self._made if path not in gone]
        open_store(self._target.location).delete(sorted(gone))
