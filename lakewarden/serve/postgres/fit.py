"""Brings an answer into the columns that the client was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakewarden.errors import Unsupported
from lakewarden.serve.postgres.portals import AnswerColumn
from lakewarden.serve.postgres.wire import kinds
from lakewarden.serve.postgres.wire.kinds import kind_of

_WIDENED: Mapping[int, pa.DataType] = {
    kinds.INT2.oid: pa.int16(),
    kinds.INT4.oid: pa.int32(),
    kinds.INT8.oid: pa.int64(),
    kinds.FLOAT4.oid: pa.float32(),
    kinds.FLOAT8.oid: pa.float64(),
    kinds.DATE.oid: pa.date32(),
    kinds.TIMESTAMP.oid: pa.timestamp("us"),
    kinds.TIMESTAMPTZ.oid: pa.timestamp("us", tz="UTC"),
    kinds.TEXT.oid: pa.large_string(),
}


def fitted(table: pa.Table, columns: Sequence[AnswerColumn]) -> pa.Table:
    """A statement is described with values that are not its own, so a number may be narrower in its answer.

    Raises:
        Unsupported: the answer has other columns.
    """
    if table.num_columns != len(columns):
        raise _changed()
    for at, column in enumerate(columns):
        if kind_of(table.field(at).type).oid == column.kind.oid:
            continue
        wanted = _WIDENED.get(column.kind.oid)
        try:
            values = table.column(at) if wanted is None else table.column(at).cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _changed() from error
        table = table.set_column(at, column.name, values)
    return table


def _changed() -> Unsupported:
    return Unsupported("the statement answers with other columns than it was described with: prepare it again")
