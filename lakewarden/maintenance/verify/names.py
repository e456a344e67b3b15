"""Finds the user that a path names: decodes ids in paths, and matches templates against keys."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_ESCAPE = re.compile(rb"!([0-9a-f]{2})")
_VALUE = re.compile(r"\{(namespace|tableName|shard|userId)\}")


@dataclass(frozen=True)
class Whose:
    """A key parsed by its table's template: `user` as spelled in the path, `rest` within that scope."""

    user: str
    rest: str


def stands_for(segment: str, value: str) -> bool:
    """Whether a path segment is the encoding of this value."""
    data = value.encode()
    if "!!" in segment:
        return segment.endswith(f"!!{hashlib.sha256(data).hexdigest()}")
    return segment == value or _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), segment.encode()) == data


def match(template: str, namespace: str, table: str, key: str) -> Whose | None:
    """Parses a key by a storage's template; None where the key is not this table's."""
    parts, wanted = key.split("/"), template.split("/")
    user = ""
    if len(parts) < len(wanted):
        return None
    for part, pattern in zip(parts, wanted, strict=False):
        holder = _VALUE.search(pattern)
        if holder is None:
            if part != pattern:
                return None
            continue
        before, after = pattern[: holder.start()], pattern[holder.end() :]
        if not (part.startswith(before) and part.endswith(after) and len(part) > len(before) + len(after)):
            return None
        value = part[len(before) : len(part) - len(after)]
        if holder[1] == "namespace" and not stands_for(value, namespace):
            return None
        if holder[1] == "tableName" and not stands_for(value, table):
            return None
        user = value if holder[1] == "userId" else user
    return Whose(user, "/".join(parts[len(wanted) :]))


def within(template: str, namespace: str, table: str, key: str) -> list[str] | None:
    """The directories of a key below its table's, None where it is not below it."""
    head = template.split("/")
    depth = next((at for at, part in enumerate(head) if "{shard}" in part or "{userId}" in part), len(head))
    if depth and match("/".join(head[:depth]), namespace, table, key) is None:
        return None
    return key.split("/")[depth:-1]
