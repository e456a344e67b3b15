"""The items of a list of one dimension, in PostgreSQL's text and binary formats."""

from __future__ import annotations

import re
import struct

_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",{}\\](?:[^",{}\\]*[^\s",{}\\])?))\s*')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NULL = -1


def items_of_text(text: str) -> list[str | None]:
    """Raises:
    ValueError: it is no list, or has several dimensions.
    """
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError("a list stands in braces")
    inner = inner[1:-1]
    if not inner.strip():
        return []
    found: list[str | None] = []
    at = 0
    while True:
        item = _ITEM.match(inner, at)
        if item is None:
            raise ValueError("what stands between two commas is no value")
        quoted, plain = item.groups()
        found.append(_ESCAPED.sub(r"\1", quoted) if plain is None else None if plain.upper() == "NULL" else plain)
        at = item.end()
        if at == len(inner):
            return found
        if inner[at] != ",":
            raise ValueError("a comma stands between two values")
        at += 1


def items_of_binary(data: bytes) -> list[bytes | None]:
    """Raises:
    ValueError, struct.error: it is no list, or has several dimensions.
    """
    dimensions, _has_null, _element = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError("a list has one dimension")
    count, _first = struct.unpack_from("!ii", data, 12)
    found: list[bytes | None] = []
    at = 20
    for _ in range(count):
        (size,) = struct.unpack_from("!i", data, at)
        at += 4
        if size == _NULL:
            found.append(None)
            continue
        if size < 0 or at + size > len(data):
            raise ValueError("an item is longer than the list")
        found.append(data[at : at + size])
        at += size
    return found
