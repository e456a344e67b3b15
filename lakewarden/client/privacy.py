"""`lake.privacy`: the rights of a user to a copy of their data, and to its removal with proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakewarden.catalog.state.erasures import ErasureRequest, find_request, nameless
from lakewarden.client.catalog import CatalogCalls
from lakewarden.client.parts import Noun
from lakewarden.maintenance.request import request_of
from lakewarden.storage.paths import check_user

if TYPE_CHECKING:
    from lakewarden.catalog.state.erasures import Certificate
    from lakewarden.maintenance.export.contents import Export
    from lakewarden.maintenance.plans.value import Plan
    from lakewarden.maintenance.verify.search import SearchResult


class PrivacyCalls(Noun):
    """The calls of `lake.privacy`, as `Lakehouse` has them."""

    def export(self, user: str, to: str) -> Export:
        """Flushes all data of a user and copies it, as Delta tables with their history; the manifest is written last.

        Args:
            to: a directory or URI that is empty, or has an earlier or interrupted export of the same user.

        Raises:
            InvalidArgument: the place contains a credential, or is in a storage or the warehouse (except `exports/`).
            InUse: the place contains something else.
            Conflict: a scope could not be flushed, or was rewritten meanwhile. Try again.
            NotFound: nothing is known of the user.
        """
        self._check_known(user)
        from lakewarden.maintenance.export.procedure import export_user

        return export_user(self._parts.operator, user, to)

    def import_user(self, source: str, user: str, tables: Sequence[str] | None = None) -> dict[str, int]:
        """Writes the rows of an export, as of its newest versions, for a user of this warehouse; rows by table.

        Args:
            tables: only these; by default all of the export. They must exist, with the same columns.

        Raises:
            NotFound: the export is missing or unfinished, or a table is missing in it or here; nothing was written.
            Corrupt: a file differs from the manifest; nothing was written.
        """
        from lakewarden.maintenance.export.contents import import_export

        return import_export(CatalogCalls(self._parts).table, source, user, tuple(tables or ()))

    def erase(
        self,
        user: str,
        tables: Sequence[str] | None = None,
        *,
        deep: bool = False,
        asked_by: str = "operator",
        even_if_unknown: bool = False,
    ) -> Certificate:
        """Removes all data of a user, hot and cold, and searches for remains. Continues one that was interrupted.

        Meanwhile the user's writes raise `BeingErased`; afterwards the user may write again.

        Args:
            tables: only these; by default all USER tables.
            deep: read every object under every storage.
            asked_by: the requester that the certificate names.
            even_if_unknown: erase, search and certify although nothing is known of the user.

        Raises:
            NotFound, InvalidArgument: a table does not exist or is SHARED, or nothing is known of the user; nothing was done.
            Conflict: something remains, or is still written to. Remove what the message names, and erase again.
        """
        if not even_if_unknown:
            self._check_known(user, tables)
        from lakewarden.maintenance.erase.procedure import erase_user

        return erase_user(self._parts.operator, ErasureRequest(user, tuple(tables or ()), asked_by, deep))

    def request_erasure(
        self,
        user: str,
        tables: Sequence[str] | None = None,
        *,
        deep: bool = False,
        asked_by: str = "operator",
        even_if_unknown: bool = False,
    ) -> str:
        """Queues an erasure for `erase_requested`, in this process or another; returns the user's keyed hash, which names it.

        Raises:
            NotFound, InvalidArgument: as `erase`.
        """
        from lakewarden.maintenance.erase.run import request_erasure

        if not even_if_unknown:
            self._check_known(user, tables)
        return request_erasure(self._parts.warehouse, ErasureRequest(user, tuple(tables or ()), asked_by, deep))

    def requested_erasure(self, request: str) -> ErasureRequest:
        """The erasure that was requested under this keyed hash.

        Raises:
            NotFound, InvalidArgument: no such request; not a keyed hash.
        """
        return find_request(self._parts.warehouse.state, request)

    def plan_requested_erasure(self, request: str) -> Plan:
        """The plan of the erasure that was requested under this keyed hash.

        Raises:
            NotFound, InvalidArgument: no such request; not a keyed hash.
        """
        erasure = self.requested_erasure(request)
        with nameless(erasure.user, request):
            return self._parts.operator.preview(request_of(erasure))

    def erase_requested(self, request: str, *, plan_id: str | None = None) -> Certificate:
        """Runs the erasure that was requested under this keyed hash. A failed one stays queued.

        Args:
            plan_id: a plan of it, made by `plan("erase", …)`: it runs only if the tables are still those of the plan.

        Raises as `erase`, with the keyed hash in place of the id.
        """
        from lakewarden.maintenance.erase.procedure import erase_as_planned, erase_requested

        at = self._parts.operator
        return erase_requested(at, request) if plan_id is None else erase_as_planned(at, request, plan_id)

    def verify_erased(self, user: str, tables: Sequence[str] | None = None, *, deep: bool = False) -> SearchResult:
        """Searches for anything of a user, with code that is independent of the deletion; changes nothing."""
        from lakewarden.maintenance.erase.verification import verify_erased

        return verify_erased(self._parts.warehouse, user, tuple(tables or ()), deep=deep)

    def erasures(self, user: str | None = None) -> list[Certificate]:
        """The certificates, oldest first; with `user` those of one erased user, found by their keyed hash."""
        from lakewarden.catalog.state.erasures import certificates

        mark = None if user is None else self._parts.warehouse.erasures.mark(check_user(user))
        return [found for found in certificates(self._parts.warehouse.state) if mark in (None, found.user)]

    def _check_known(self, user: str, tables: Sequence[str] | None = None) -> None:
        from lakewarden.maintenance.erase.verification import check_known

        check_known(self._parts.warehouse, user, tables or ())


class Privacy(PrivacyCalls):
    """`lake.privacy`."""

    certificates = PrivacyCalls.erasures
