"""What a user may demand: a copy of their data, and its removal with proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.lakehouse.parts import Parts
from lakewarden.state.erasure_requests import EraseAsked, find_asked
from lakewarden.storage.paths import check_user

if TYPE_CHECKING:
    from lakewarden.operations.export.contents import Export
    from lakewarden.operations.plans.value import Plan
    from lakewarden.state.certificates import Certificate
    from lakewarden.table import TableClient
    from lakewarden.verify.search import Searched


@dataclass(frozen=True)
class Privacy:
    """`lake.privacy`."""

    parts: Parts
    open_table: Callable[[str], TableClient]

    def export(self, user: str, to: str) -> Export:
        """Copies all that a user has, flushed first, as Delta tables with their history; the manifest comes last.

        Args:
            to: a directory or URI that is empty, or holds an earlier or interrupted export of the same user.

        Raises:
            InvalidArgument: the place holds a credential, or lies in the warehouse (but for its `exports/`) or a storage.
            InUse: something else lies there.
            Conflict: a scope could not be flushed, or was rewritten meanwhile; try again.
        """
        return self.parts.operator.export(user, to)

    def import_user(self, source: str, user: str, tables: Sequence[str] | None = None) -> dict[str, int]:
        """Writes the rows of an export, as of its newest versions, for a user of this warehouse; rows by table.

        Args:
            tables: only these; all of the export where none is named. They have to be there, with the same columns.

        Raises:
            NotFound: no finished export, or no such table in it or here; nothing was written.
            Corrupt: a file is not what the manifest says; nothing was written.
        """
        from lakewarden.table.importing import import_export

        return import_export(self.open_table, source, user, tuple(tables or ()))

    def erase(
        self, user: str, tables: Sequence[str] | None = None, *, deep: bool = False, asked_by: str = "operator"
    ) -> Certificate:
        """Removes all that a user has, hot and cold, and searches for what is left; one that was interrupted goes on.

        Meanwhile the user's writes raise `BeingErased`; afterwards the user may start anew.

        Args:
            tables: only of these; all USER tables where none is named.
            deep: read every object under every storage.
            asked_by: stands in the certificate.

        Raises:
            NotFound, InvalidArgument: no such table, or a SHARED one; nothing was done.
            Conflict: something was left, or is still written to; remove what the message names, and erase again.
        """
        return self.parts.operator.erase(EraseAsked(user, tuple(tables or ()), asked_by, deep))

    def ask_erasure(
        self, user: str, tables: Sequence[str] | None = None, *, deep: bool = False, asked_by: str = "operator"
    ) -> str:
        """Queues an erasure for `erase_asked`, here or elsewhere; the user's keyed hash, by which it is known until then.

        Raises:
            NotFound, InvalidArgument: as `erase`.
        """
        from lakewarden.operations.erase.run import ask_erasure

        return ask_erasure(self.parts.warehouse, EraseAsked(user, tuple(tables or ()), asked_by, deep))

    def asked_erasure(self, request: str) -> EraseAsked:
        """What was asked for under this keyed hash.

        Raises:
            NotFound, InvalidArgument: nothing was; it is none.
        """
        return find_asked(self.parts.warehouse.state, request)

    def plan_asked_erasure(self, request: str) -> Plan:
        """The plan of what was asked for under this keyed hash.

        Raises:
            NotFound, InvalidArgument: nothing was; it is none.
        """
        return self.parts.planner.preview_asked(request)

    def erase_asked(self, request: str, *, plan_id: str | None = None) -> Certificate:
        """Erases as it was asked for under this keyed hash. One that fails stays asked for.

        Args:
            plan_id: a plan of it, made by `plan("erase", …)`: then it is done only if the tables are still those of the plan.

        Raises as `erase`, with the keyed hash in place of the id.
        """
        return self.parts.operator.erase_asked(request) if plan_id is None else self.parts.applier.erase_asked(request, plan_id)

    def verify_erased(self, user: str, tables: Sequence[str] | None = None, *, deep: bool = False) -> Searched:
        """Searches for anything of a user, by code that shares nothing with the deletion; changes nothing."""
        from lakewarden.operations.verification import verify_erased

        return verify_erased(self.parts.warehouse, user, tuple(tables or ()), deep=deep)

    def certificates(self, user: str | None = None) -> list[Certificate]:
        """The certificates, oldest first; with `user` those of one who was erased, by their keyed hash."""
        from lakewarden.state.certificates import certificates

        mark = None if user is None else self.parts.warehouse.erasures.mark(check_user(user))
        return [found for found in certificates(self.parts.warehouse.state) if mark in (None, found.user)]
