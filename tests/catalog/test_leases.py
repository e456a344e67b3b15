"""Leases as changes of the catalog: each is told from every other, also from an earlier one of the same owner."""

from __future__ import annotations

import pytest

from lakewarden.catalog.changes.leases import give_back, grant, held, renew, under
from lakewarden.catalog.changes.objects import first_catalog
from lakewarden.catalog.model import Catalog, Lease
from lakewarden.errors import Conflict


def granted(catalog: Catalog, name: str, owner: str, instead_of: Lease | None = None) -> tuple[Catalog, Lease]:
    after = grant(name, owner, 30.0, instead_of)(catalog)
    return Catalog(version=catalog.version + 1, leases=after.leases), after.leases[name]


def test_a_lease_of_the_same_owner_that_was_given_back_is_lost() -> None:
    catalog, first = granted(first_catalog(), "chat.notes", "ann")
    catalog = give_back(first)(catalog)
    catalog, second = granted(Catalog(version=catalog.version + 1, leases=catalog.leases), "chat.notes", "ann")
    assert held(catalog, second) == second
    for change in (renew(first), give_back(first), under(first, lambda same: same)):
        with pytest.raises(Conflict, match=r"lock on chat\.notes"):
            change(catalog)


def test_a_lease_is_granted_in_place_of_the_one_that_was_seen_alone() -> None:
    catalog, first = granted(first_catalog(), "chat.notes", "ann")
    with pytest.raises(Conflict, match="locked by ann"):
        grant("chat.notes", "bob", 30.0, None)(catalog)
    renewed = renew(first)(catalog)
    with pytest.raises(Conflict, match="locked by ann"):
        grant("chat.notes", "bob", 30.0, first)(renewed)
    assert granted(renewed, "chat.notes", "bob", renewed.leases["chat.notes"])[1].owner == "bob"


def test_a_lease_that_is_given_back_leaves_the_others() -> None:
    catalog, notes = granted(first_catalog(), "chat.notes", "ann")
    catalog, rooms = granted(catalog, "chat.rooms", "ann")
    assert give_back(notes)(catalog).leases == {"chat.rooms": rooms}
