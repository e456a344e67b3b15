"""Leases as changes of the catalog, which makes their fence exact: what a holder commits and that it still holds the
lease are decided by the creation of one object.

No clock is compared with another machine's. A lease ends when its holder gives it back, or when a waiting process saw no
renewal for its whole duration and takes it over; the former holder's changes are refused from that version on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakewarden.catalog.model import Catalog, Lease
from lakewarden.errors import Conflict

Change = Callable[[Catalog], Catalog]


def grant(name: str, owner: str, seconds: float, instead_of: Lease | None) -> Change:
    """Gives the lease to `owner`, replacing exactly the lease that was seen (None: no lease).

    Raises:
        Conflict: another process holds it now, or its holder has renewed it.
    """

    def change(catalog: Catalog) -> Catalog:
        # Compared whole, its beat included: a renewal that came behind the look keeps the lease with its holder.
        if (held := catalog.leases.get(name)) != instead_of:
            raise Conflict(f"{name} is locked by {held.owner if held else 'no process'} by now")
        # The token is the version that grants it: it only grows, and no two grants share one.
        lease = Lease(name, owner, catalog.version + 1, seconds)
        return replace(catalog, leases={**catalog.leases, name: lease})

    return change


def under(lease: Lease, change: Change) -> Change:
    """The change, refused once the lease is lost: looked at in the very version that the change follows.

    Raises:
        Conflict: the lease was given back or taken over; nothing was changed.
    """

    def fenced(catalog: Catalog) -> Catalog:
        held(catalog, lease)
        return change(catalog)

    return fenced


def held(catalog: Catalog, lease: Lease) -> Lease:
    """The lease as the catalog has it, with its newest beat.

    Raises:
        Conflict: it is lost.
    """
    found = catalog.leases.get(lease.name)
    # The token too: a lease that was given back and granted again to the same owner is another one.
    if found is None or (found.owner, found.token) != (lease.owner, lease.token):
        holder = "was given up" if found is None else f"was taken over by {found.owner}"
        raise Conflict(f"the lock on {lease.name} {holder} while {lease.owner} worked under it; nothing more is changed")
    return found


def renew(lease: Lease) -> Change:
    def change(catalog: Catalog) -> Catalog:
        found = held(catalog, lease)
        return replace(catalog, leases={**catalog.leases, lease.name: replace(found, beat=found.beat + 1)})

    return change


def give_back(lease: Lease) -> Change:
    def change(catalog: Catalog) -> Catalog:
        held(catalog, lease)
        return replace(catalog, leases={name: other for name, other in catalog.leases.items() if name != lease.name})

    return change
