"""The methods of `Lakehouse` that delegate to `lake.privacy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakewarden.catalog.state.erasure.requests import ErasureRequest
from lakewarden.client.nouns import Nouns

if TYPE_CHECKING:
    from lakewarden.catalog.state.erasure.certificates import Certificate
    from lakewarden.maintenance.export.contents import Export
    from lakewarden.maintenance.plans.value import Plan
    from lakewarden.maintenance.verify.search import SearchResult


class PrivacyDelegates(Nouns):
    """The methods of `Lakehouse` that delegate to `lake.privacy`."""

    def export(self, user: str, to: str) -> Export:
        """Copies all data of a user, as Delta tables with their history."""
        return self.privacy.export(user, to)

    def import_user(self, source: str, user: str, tables: Sequence[str] | None = None) -> dict[str, int]:
        """Writes the rows of an export for a user of this warehouse; rows by table."""
        return self.privacy.import_user(source, user, tables)

    def erase(
        self,
        user: str,
        tables: Sequence[str] | None = None,
        *,
        deep: bool = False,
        asked_by: str = "operator",
        even_if_unknown: bool = False,
    ) -> Certificate:
        """Removes all data of a user, and searches for remains."""
        return self.privacy.erase(user, tables, deep=deep, asked_by=asked_by, even_if_unknown=even_if_unknown)

    def request_erasure(
        self,
        user: str,
        tables: Sequence[str] | None = None,
        *,
        deep: bool = False,
        asked_by: str = "operator",
        even_if_unknown: bool = False,
    ) -> str:
        """Queues an erasure for `erase_requested`; returns the user's keyed hash."""
        return self.privacy.request_erasure(user, tables, deep=deep, asked_by=asked_by, even_if_unknown=even_if_unknown)

    def requested_erasure(self, request: str) -> ErasureRequest:
        """The erasure that was requested under this keyed hash."""
        return self.privacy.requested_erasure(request)

    def plan_requested_erasure(self, request: str) -> Plan:
        """The plan of the erasure that was requested under this keyed hash."""
        return self.privacy.plan_requested_erasure(request)

    def erase_requested(self, request: str, *, plan_id: str | None = None) -> Certificate:
        """Runs the erasure that was requested under this keyed hash."""
        return self.privacy.erase_requested(request, plan_id=plan_id)

    def verify_erased(self, user: str, tables: Sequence[str] | None = None, *, deep: bool = False) -> SearchResult:
        """Searches for anything of a user, with code that is independent of the deletion."""
        return self.privacy.verify_erased(user, tables, deep=deep)

    def erasures(self, user: str | None = None) -> list[Certificate]:
        """The certificates of erasures, oldest first."""
        return self.privacy.certificates(user)
