"""Whose a storage's place is: two warehouses that wrote to one place would take each other's tables for their own."""

from __future__ import annotations

from lakewarden.errors import InUse
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

_MARKER = ".lakewarden-owner"


def claim(store: ObjectStore, warehouse_id: str) -> None:
    """Marks the place as this warehouse's; a place that is its own already stays so.

    Raises:
        InUse: it is another warehouse's.
    """
    try:
        store.create(_MARKER, warehouse_id.encode())
    except AlreadyThere:
        owner = store.get(_MARKER).decode(errors="replace")
        if owner != warehouse_id:
            raise InUse(f"{store.uri} belongs to warehouse {owner}; choose a place of its own for this one") from None


def confirm(store: ObjectStore, warehouse_id: str) -> None:
    """Checks that the place is still the one that this warehouse claimed, now that it is reached in another way.

    Raises:
        InUse: nobody's mark is there, or another warehouse's.
    """
    try:
        owner = store.get(_MARKER).decode(errors="replace")
    except Missing:
        owner = "nobody"
    if owner != warehouse_id:
        raise InUse(f"{store.uri} as it would be reached belongs to {owner}: it is not the place that the tables lie in")
