"""What the server says of itself: the answer to GetSqlInfo, numbers and values as FlightSql.proto lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakewarden.base.version import VERSION

_NO_TRANSACTIONS = 0
_FACTS: Mapping[int, str | bool | int] = {
    0: "Lakewarden",
    1: VERSION,
    2: pa.__version__,
    3: False,  # it is not read-only
    4: True,  # it takes SQL,
    5: False,  # and no Substrait
    8: _NO_TRANSACTIONS,
    9: False,  # no action cancels a query: a client that goes away does
    504: '"',
    529: "namespace",
    531: "",  # no catalogs
}
_KINDS: Mapping[str, pa.DataType] = {
    "string_value": pa.string(),
    "bool_value": pa.bool_(),
    "bigint_value": pa.int64(),
    "int32_bitmask": pa.int32(),
    "string_list": pa.list_(pa.string()),
    "int32_to_int32_list_map": pa.map_(pa.int32(), pa.list_(pa.int32())),
}
_CODES = {str: 0, bool: 1, int: 3}


def sql_info(numbers: Sequence[int]) -> pa.Table:
    """The facts of these numbers, all without any; what is not known is left out."""
    facts = {number: _FACTS[number] for number in numbers or _FACTS if number in _FACTS}
    columns: list[list[object]] = [[] for _ in _KINDS]
    codes, offsets = list[int](), list[int]()
    for fact in facts.values():
        code = _CODES[type(fact)]
        codes.append(code)
        offsets.append(len(columns[code]))
        columns[code].append(fact)
    children = [pa.array(values, kind) for values, kind in zip(columns, _KINDS.values(), strict=True)]
    values: pa.Array[Any] = pa.UnionArray.from_dense(
        pa.array(codes, pa.int8()), pa.array(offsets, pa.int32()), children, list(_KINDS)
    )
    fields = [pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", values.type)]
    return pa.Table.from_arrays([pa.array(list(facts), pa.uint32()), values], schema=pa.schema(fields))
