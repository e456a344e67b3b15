"""The state of a warehouse: what is pending, due or damaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakewarden.catalog.changes.engines import is_active
from lakewarden.client.parts import Noun
from lakewarden.maintenance.planning.pending import DueScope, PendingScopes, ScopeBacklog, due_scopes, pending_in
from lakewarden.tables.warehouse import cold_tables

if TYPE_CHECKING:
    from lakewarden.base.setting_sections import PricesSettings
    from lakewarden.maintenance.admin.health import StorageHealth
    from lakewarden.maintenance.check.scope import Finding
    from lakewarden.maintenance.planning.fleet import Fleet
    from lakewarden.maintenance.planning.health import TableHealth
    from lakewarden.maintenance.planning.overview import Overview
    from lakewarden.maintenance.planning.status import ScopeStatus
    from lakewarden.maintenance.planning.users import KnownUser
    from lakewarden.maintenance.survey.table_survey import TableSurvey


class StatusCalls(Noun):
    """The calls of `lake.maintenance.status` that `Lakehouse` has, too."""

    def pending(self) -> Sequence[ScopeBacklog]:
        """The scopes with rows to flush, oldest first; reads all of the log. STREAM tables have none.

        Omits tables whose log is corrupt; their flush and `check` report it.
        """
        return pending_in(self._parts.warehouse)

    def due(self) -> list[DueScope]:
        """The scopes that are due by their table's FLUSH_POLICY, and why."""
        return self._due(active=True)

    def _due(self, *, active: bool) -> list[DueScope]:
        catalog = self._parts.warehouse.catalog.read()
        pending = PendingScopes.of(cold_tables(catalog), self._parts.warehouse.logs.views().sound)
        found = due_scopes(catalog, pending, self._parts.warehouse.clock())
        return [one for one in found if is_active(catalog, one.pending.table) is active]

    def status(self, limit: int | None = None) -> list[ScopeStatus]:
        """The scopes that are broken, then those with pending rows and the state of their tables, the longest waiting first;
        at most `limit`."""
        from lakewarden.maintenance.planning.status import BrokenScopes, status

        catalog, views = self._parts.warehouse.catalog.read(), self._parts.warehouse.logs.views()
        tables = cold_tables(catalog)
        broken = [BrokenScopes.of(self._parts.warehouse, catalog, table) for table in tables]
        return status(self._parts.warehouse, catalog, PendingScopes.of(tables, views.sound), limit, broken, views.faults)

    def overview(self, limit: int | None = None) -> Overview:
        """Each table in numbers, and the worst scopes with the reason: at most `limit`, or all that have pending rows."""
        from lakewarden.maintenance.planning.overview import overview

        return overview(self._parts.warehouse, limit)

    def fleet(self, found: Overview | None = None) -> Fleet:
        """All tables, the worst first, with what the last week did and what maintenance would do now. Writes nothing.

        Args:
            found: an overview that was just made.
        """
        from lakewarden.maintenance.planning.fleet_look import fleet_of

        return fleet_of(self._parts.warehouse, self._parts.operator.jobs, found)

    def book_fleet(self, found: Sequence[TableHealth] | None = None) -> int:
        """Keeps a day of each table, for the week that `fleet` shows: to be called every few minutes, as Dagster's sensor of
        health and `lakewarden maintain --once` do. Returns how many tables' days were written.

        Args:
            found: the health of all tables, if it was just looked at.
        """
        from lakewarden.maintenance.planning.fleet_look import FILES_OF, book
        from lakewarden.maintenance.planning.health import health

        warehouse = self._parts.warehouse
        return book(warehouse, self._parts.operator.jobs, health(warehouse, files_of=FILES_OF) if found is None else found)

    def users(self) -> list[KnownUser]:
        """The users of the catalog, and those who have rows, by name; reads the list of scopes of each table."""
        from lakewarden.maintenance.planning.users import known_users

        return known_users(self._parts.warehouse)

    def check(self, storage: str | None = None, *, quick: bool = False) -> list[Finding]:
        """Checks that every storage is reachable, every scope readable, and log and table consistent.

        With `quick` it opens only the scopes that failed a check before, or that the state does not know.
        """
        from lakewarden.maintenance.check.run import check

        return check(self._parts.warehouse, self._parts.engine.run, storage, quick=quick)

    def health(self, storage: str | None = None, *, extended: bool = True) -> list[StorageHealth]:
        """The state of every storage, or of one: what works there, how fast, and with `extended` how much it holds.

        Raises:
            NotFound: the storage does not exist.
        """
        from lakewarden.maintenance.admin.health import health
        from lakewarden.maintenance.check.run import storages_named

        chosen = storages_named(self._parts.warehouse.catalog.read(), storage).values()
        return [health(self._parts.warehouse, one, extended=extended) for one in chosen]

    def survey(
        self, uri: str, *more: str, keep: bool = True, prices: PricesSettings | None = None, deep: bool = False
    ) -> list[TableSurvey]:
        """As `lakewarden.survey`, with the prices of this warehouse, and the connections of its storages for what is in them.

        With `keep`, what was found is kept in the warehouse: a table that a listing shows to be as it was costs the next look no
        request, `change` says of each what happened since the last one, and tables that are gone stand last, once.

        Raises:
            NotFound, InvalidArgument, StorageUnavailable, StorageRefused: as `lakewarden.survey`; what was found at other places
                is kept.
        """
        from lakewarden.maintenance.survey.next_look import survey_and_keep
        from lakewarden.maintenance.survey.run import whole_survey
        from lakewarden.maintenance.survey.verdict import SurveyOptions

        warehouse = self._parts.warehouse
        catalog = warehouse.catalog.read()
        options = SurveyOptions(prices or warehouse.kept_settings(catalog).prices, deep)
        places = [catalog.location_of(each) for each in (uri, *more)]
        if not keep:
            return whole_survey(places, options, self._parts.engine.progress)
        found, keep_all = survey_and_keep(warehouse, places, options, self._parts.engine.progress)
        keep_all()
        if found.survey.unlisted:
            raise found.survey.unlisted[0].error
        return [*found.survey.tables]


class WarehouseStatus(StatusCalls):
    """`lake.maintenance.status`."""

    scopes = StatusCalls.status
    storages = StatusCalls.health

    def held(self) -> list[DueScope]:
        """The scopes that would be due if the engine of their namespace were not disabled."""
        return self._due(active=False)
