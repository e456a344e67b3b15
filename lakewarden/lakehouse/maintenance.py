"""The operations that keep a warehouse healthy: a report for each scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.lakehouse.parts import Parts
from lakewarden.lakehouse.plans import Plans
from lakewarden.lakehouse.status import Status
from lakewarden.operations.request import PlanOptions, Request, new_request
from lakewarden.scope import Scope, TableName

if TYPE_CHECKING:
    from lakewarden.admin.upgrade import UpgradedStorage
    from lakewarden.repair.report import Repaired
    from lakewarden.report import ScopeReport


@dataclass(frozen=True)
class Maintenance:
    """`lake.maintenance`."""

    parts: Parts

    @property
    def status(self) -> Status:
        """What there is to do."""
        return Status(self.parts.warehouse, self.parts.engine)

    @property
    def plans(self) -> Plans:
        """The operations as plans."""
        return Plans(self.parts, self.status)

    def upgrade(self) -> list[UpgradedStorage]:
        """Brings a warehouse that an earlier release made to the newest format: gives every storage its identity and every
        table its floor. Stop earlier releases before; open the warehouse again afterwards.

        Raises:
            StorageUnavailable, StorageRefused, Corrupt: a storage, or the table of a scope that was flushed, is not there;
                nothing was upgraded.
        """
        from lakewarden.admin.upgrade import upgrade

        return upgrade(self.parts.warehouse)

    def repair(
        self, table: str | None = None, *, user: str | None = None, dry_run: bool = False, restored: bool = False
    ) -> list[Repaired]:
        """Makes damaged logs and scopes whole again, as far as their rows are left, and says what is lost.

        What is in the way goes to `_quarantine/` in the scope's directory, where rows whose deletion cannot be excluded go too.

        Args:
            table: all tables where it is left out.
            user: only this user's scopes.
            dry_run: says what would be done, and changes nothing.
            restored: the warehouse or its data was just restored from a backup: the step that must follow.

        Returns:
            A report for each damaged log and for each scope; `skipped` where nothing is wrong.

        Raises:
            NotFound, InvalidArgument: no such table; an impossible user, or one for a SHARED table.
            StorageUnavailable: a storage is away, or is not the one that this warehouse uses.
        """
        return self.parts.operator.repair(() if table is None else (table,), user, dry_run=dry_run, restored=restored)

    def flush(self, *tables: str, user: str | None = None) -> list[ScopeReport]:
        """Moves pending rows into the Delta tables: of all tables where none is named, of one user where one is.

        Raises:
            NotFound: a table that is not there; nothing was flushed.
        """
        return self._run(new_request("flush", tables, user=user), dry_run=False)

    def flush_scopes(self, scopes: Iterable[Scope]) -> list[ScopeReport]:
        """Flushes exactly these, in one job; those with nothing pending are passed over."""
        wanted = set(scopes)
        return self.parts.operator.flush_where(wanted.__contains__, {"scopes": str(len(wanted))})

    def compact(self, *tables: str, user: str | None = None, dry_run: bool = False) -> list[ScopeReport]:
        """Folds each scope's newest small files into one."""
        return self._run(new_request("compact", tables, user=user), dry_run)

    def evict(self, *tables: str, user: str | None = None, dry_run: bool = False) -> list[ScopeReport]:
        """Lets go of STREAM rows whose time is over, or that are beyond their scope's size: a report for each such scope.

        Raises:
            NotFound, Unsupported: a name that is no STREAM table's; nothing was evicted.
        """
        return self._run(new_request("evict", tables, user=user), dry_run)

    def optimize(
        self, *tables: str, user: str | None = None, zorder: Sequence[str] = (), dry_run: bool = False
    ) -> list[ScopeReport]:
        """Packs each scope's files to the target size, or clusters them by columns."""
        return self._run(new_request("optimize", tables, user=user, zorder=tuple(zorder)), dry_run)

    def vacuum(
        self,
        *tables: str,
        user: str | None = None,
        retain_hours: float | None = None,
        force: bool = False,
        dry_run: bool = True,
    ) -> list[ScopeReport]:
        """Deletes files that no version inside the retention needs; lists them only, unless `dry_run=False`.

        Raises:
            InvalidArgument: a retention below 168 hours, and `force` is not given.
        """
        return self._run(new_request("vacuum", tables, user=user, retain_hours=retain_hours, force=force), dry_run)

    def restore(
        self,
        table: str,
        *,
        user: str | None = None,
        version: int | None = None,
        timestamp: datetime | None = None,
        discard_pending: bool = False,
        dry_run: bool = True,
    ) -> list[ScopeReport]:
        """Brings a scope (or, by timestamp, all scopes of a table) back; says only what it would do, unless `dry_run=False`.

        Pending rows are flushed first, or dropped where `discard_pending` says so.

        Raises:
            InvalidArgument: not exactly one of `version` and `timestamp`, or a version of a USER table without a user.
        """
        options = PlanOptions(user=user, version=version, timestamp=timestamp, discard_pending=discard_pending)
        return self._run(new_request("restore", (table,), **options), dry_run)

    def _run(self, request: Request, dry_run: bool) -> list[ScopeReport]:
        return self.parts.planner.preview(request).reports if dry_run else self.parts.operator.run(request)

    def move(self, table: str, to: str) -> list[ScopeReport]:
        """Moves a table to another storage: copies, compares, switches, and empties the old place. Reads and writes go on;
        flushes wait while the last of it is copied. One that was interrupted goes on when it is asked for again.

        Scopes of users with a storage of their own stay there.

        Args:
            to: the storage's id.

        Returns:
            A report a scope; none where the table lies there already. Where a scope failed, the table stays where it is.

        Raises:
            NotFound, Unsupported: no such table or storage; a STREAM table.
            InUse: it is being moved elsewhere, or something lies at its place there.
            Conflict: a reader leases a version, or a user is being erased; try again later.
        """
        return self.parts.operator.move(TableName.parse(table), to)

    def cancel_move(self, table: str) -> list[ScopeReport]:
        """Gives up a move before its switch; the table stays where it is, and what was copied goes.

        Raises:
            NotFound: no such table.
            InUse: it lies at the new place already; the move can only be ended.
        """
        return self.parts.operator.cancel_move(TableName.parse(table))
