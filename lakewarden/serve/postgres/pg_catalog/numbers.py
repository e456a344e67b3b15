"""The OIDs of what the catalog names: the same for as long as the name is there, without being kept anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

OWNER = 10
"""The role that owns all: PostgreSQL's first one."""
CATALOG, INFORMATION = 11, 13_000
"""The schemas of the system."""
CLASSES = {
    "pg_type": 1247,
    "pg_attribute": 1249,
    "pg_proc": 1255,
    "pg_class": 1259,
    "pg_constraint": 2606,
    "pg_namespace": 2615,
    "pg_extension": 3079,
}
"""The relations that others refer to by number."""
HEAP, BTREE = 2, 403
TABLESPACE = 1663
"""The one of all databases: PostgreSQL's default."""
_FIRST, _MOST = 16_384, (1 << 31) - 1


def numbered(names: Iterable[str]) -> dict[str, int]:
    """A number for each name, by what it is called; of two that would have the same, the later in order has the next one."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(names):
        number = _FIRST + crc32(name.encode()) % (_MOST - _FIRST)
        while number in taken:
            number += 1
        taken.add(number)
        found[name] = number
    return found
