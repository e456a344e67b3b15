"""Cuts rows that come in batches into parts of about the same size, of which each becomes data files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakewarden.tables.direct.value import Batches


def in_parts(batches: Batches, size: int) -> Iterator[pa.Table]:
    """Yields the rows in tables of about `size` bytes in memory; holds no more than one of them and one batch."""
    held: list[pa.Table] = []
    room = size
    for batch in batches:
        for piece in _pieces(batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch]), size):
            if held and piece.nbytes > room:
                yield pa.concat_tables(held)
                held, room = [], size
            held.append(piece)
            room -= piece.nbytes
    if held:
        yield pa.concat_tables(held)


def _pieces(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    if not rows.num_rows:
        return
    step = max(1, rows.num_rows * size // max(rows.nbytes, 1))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)
