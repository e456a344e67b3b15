"""The form of an object's key, the same on every store."""

from __future__ import annotations

from lakewarden.errors import InvalidArgument

_NO_PART = frozenset({"", ".", ".."})


def check_key(key: str) -> str:
    """Returns the key.

    Raises:
        InvalidArgument: the key is empty, absolute, or steps out of the store's root.
    """
    if not _NO_PART.isdisjoint(key.split("/")) or "\0" in key:
        raise InvalidArgument(f"object key {key!r} must be parts joined by '/', none of them empty, '.' or '..'")
    return key
