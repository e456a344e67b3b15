"""`lake.catalog`: the namespaces, tables, views, storages and tags of a warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakewarden.base.scope import Scope, TableName
from lakewarden.catalog.access import OPERATOR
from lakewarden.catalog.model import Column, Namespace, Table, TableType
from lakewarden.client.parts import Noun
from lakewarden.client.storages import Storages
from lakewarden.maintenance.admin.namespaces import make_namespace, make_view, remove_namespace, remove_view, switch_engine
from lakewarden.tables.warehouse import find_table, live_tables

if TYPE_CHECKING:
    from lakewarden.catalog.evolution import Alteration
    from lakewarden.maintenance.admin.settings import WarehouseSetting
    from lakewarden.tables.client import TableClient
    from lakewarden.tables.pins import Tag


class CatalogCalls(Noun):
    """The calls of `lake.catalog` that `Lakehouse` has, too."""

    def create_namespace(self, name: str, *, if_not_exists: bool = False) -> None:
        """Creates a namespace.

        Raises:
            AlreadyExists, InvalidArgument: the name is taken, or is not valid.
        """
        if if_not_exists and name in self._parts.warehouse.catalog.read().namespaces:
            return
        make_namespace(self._parts.warehouse, name)

    def drop_namespace(self, name: str, *, cascade: bool = False) -> None:
        """Drops the namespace; with `cascade` its tables and views first.

        Raises:
            InUse: it has tables or views, and `cascade` is not given.
        """
        remove_namespace(self._parts.warehouse, name, self._drop if cascade else None)

    def settings(self) -> list[WarehouseSetting]:
        """The settings by which all processes of the warehouse go (docs/reference/configuration.md)."""
        from lakewarden.maintenance.admin.settings import settings_of

        return settings_of(self._parts.warehouse)

    def alter_warehouse(self, changes: Mapping[str, object]) -> list[WarehouseSetting]:
        """Changes such settings, all or none, as `{"compaction.ratio": 4}`; the value `default` sets one back.

        Returns:
            All settings, as they are then.

        Raises:
            InvalidArgument: there is no such setting, or a value is not one of it; nothing was changed.
        """
        from lakewarden.catalog.state.audit import AuditLog
        from lakewarden.maintenance.admin.settings import alter_warehouse

        warehouse = self._parts.warehouse
        texts = {key: str(value) for key, value in changes.items()}
        return alter_warehouse(warehouse, texts, OPERATOR, AuditLog(warehouse.state, warehouse.clock, warehouse.new_id))

    def enable_engine(self, name: str, *, settings: str | None = None) -> Namespace:
        """Enables the engine of a namespace: its tables take reads, writes and jobs again.

        Args:
            settings: the text of a JSON object, kept as it is; without it, the engine keeps its own.

        Raises:
            NotFound, InvalidArgument: the namespace does not exist, or the settings are no JSON object.
        """
        return switch_engine(self._parts.warehouse, name, active=True, settings=settings)

    def disable_engine(self, name: str) -> Namespace:
        """Disables the engine of a namespace: its tables take no reads, writes and jobs, and nothing is deleted.

        An export or erasure of a user, a check, a repair, and a drop still work.

        Raises:
            NotFound: the namespace does not exist.
        """
        return switch_engine(self._parts.warehouse, name, active=False)

    def namespaces(self) -> list[Namespace]:
        """The namespaces."""
        return list(self._parts.warehouse.catalog.read().namespaces.values())

    def create_table(
        self,
        name: str,
        *,
        type: TableType = "SHARED",
        columns: Sequence[Column],
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        dynamic: bool = False,
    ) -> TableClient:
        """Creates a table. Takes the name over from one that a dead process was dropping, or filling before it appeared.

        Args:
            name: `namespace.table`.
            type: `USER` (a scope per user), `SHARED` (one scope), or `STREAM` (a scope per user, in the log alone).
            columns: in order; docs/reference/types.md has their types.
            primary_key: names of one or more columns, which become NOT NULL; a SHARED or STREAM table may have none.
            partition_by: names of columns of a SHARED table whose values divide its data files into directories.
            options: those of the type (docs/reference/access.md); TTL_SECONDS is required for STREAM.
            dynamic: a SHARED table of FLIP-188's kind, whose options are in docs/dynamic-tables.md.

        Raises:
            InvalidArgument, AlreadyExists, NotFound, InUse: nothing was created.
            Conflict: another process is about to drop or fill a table of that name.
        """
        from lakewarden.maintenance.admin.create_table import make_table, new_table
        from lakewarden.maintenance.admin.dynamic_tables import DynamicDeclaration, make_dynamic_table
        from lakewarden.maintenance.drop import end_drop

        full, warehouse = TableName.parse(name), self._parts.warehouse
        there = warehouse.catalog.read().tables.get(full)
        if there and there.dropping:
            end_drop(self._parts.operator, full)
        if if_not_exists and there and not there.dropping:
            return self.table(name)
        if dynamic:
            declared = DynamicDeclaration(full, columns, primary_key, partition_by, options or {})
            make_dynamic_table(warehouse, declared, adopt=if_not_exists)
        else:
            make_table(warehouse, new_table(warehouse, full, type, columns, primary_key, options or {}, partition_by))
        return self.table(name)

    def alter_table(self, name: str, change: Alteration) -> Table:
        """Changes one thing of a table: a column (`catalog.evolution`), or its options.

        Flushed files and rows in the log stay as they are and are read under the new schema. A scope's next flush or direct write
        shows the change to other Delta readers; it rewrites the scope's files unless columns were only added that may be NULL. A
        `TableClient` that was created before keeps writing with the schema that it knows.

        Raises:
            InvalidArgument, AlreadyExists, NotFound, Unsupported, ConstraintViolation, InUse: nothing was changed.
        """
        from lakewarden.maintenance.admin.alter_table import alter

        return alter(self._parts.warehouse, TableName.parse(name), change)

    def drop_table(self, name: str) -> None:
        """Drops a table and all its data; waits for the cleanup. Continues a drop that was interrupted.

        Raises:
            NotFound: the table does not exist.
        """
        self._drop(TableName.parse(name))

    def _drop(self, name: TableName) -> None:
        from lakewarden.maintenance.drop import drop_now

        drop_now(self._parts.operator, name)

    def create_view(self, name: str, text: str, *, or_replace: bool = False) -> None:
        """Stores a query under a name. A user who reads it needs their own rights, and sees their own rows.

        Raises:
            BadSyntax, InvalidArgument, AlreadyExists, NotFound: nothing was created.
        """
        from lakewarden.sql.relations import read_by_view  # takes a third of a second, which other commands do not need

        make_view(self._parts.warehouse, TableName.parse(name), text, read_by_view, replacing=or_replace)

    def drop_view(self, name: str) -> None:
        """Drops a view.

        Raises:
            NotFound: the view does not exist.
        """
        remove_view(self._parts.warehouse, TableName.parse(name))

    def tables(self, namespace: str | None = None) -> list[Table]:
        """The tables that are not being dropped, of all namespaces or of one."""
        found = live_tables(self._parts.warehouse.catalog.read())
        return [table for table in found if namespace in (None, table.name.namespace)]

    def table(self, name: str) -> TableClient:
        """The client of one table.

        Raises:
            NotFound: the table does not exist.
        """

        table = find_table(self._parts.warehouse.catalog.read(), TableName.parse(name))
        from lakewarden.maintenance.open_table import open_table  # brings Delta, which a command without a table need not load

        return open_table(self._parts.warehouse, table)


class LakeCatalog(CatalogCalls):
    """`lake.catalog`."""

    @property
    def storages(self) -> Storages:
        """The storages, each a place for tables."""
        return Storages(self._parts)

    @property
    def tags(self) -> Tags:
        """The tags, each a name of a version."""
        return Tags(self._parts)


# The tags of a warehouse: names of versions that no vacuum removes.


class TagCalls(Noun):
    """The calls of `lake.catalog.tags`, as `Lakehouse` has them."""

    def tag(self, table: str, name: str, *, user: str | None = None, version: int | None = None) -> Tag:
        """Names a version of a scope, by default the newest; no vacuum removes what a tag names.

        Raises:
            BeingErased: the user is being erased, or was meanwhile; and as `add_tag`.
        """
        from lakewarden.tables.pins import add_tag, remove_tag, unless_erased

        warehouse, scope = self._parts.warehouse, Scope(TableName.parse(table), user)
        catalog = warehouse.catalog.read()
        target, tagged = warehouse.target(catalog, scope), find_table(catalog, scope.table)
        keep = partial(add_tag, warehouse.state, tagged.id, target, name, version)
        take_back = partial(remove_tag, warehouse.state, tagged.id)
        tag: Tag = unless_erased(warehouse.log(tagged), warehouse.erasures.mark(user or ""), user, keep, take_back)
        return tag

    def tags(self, table: str, *, user: str | None = None) -> list[Tag]:
        """The tags of a table, or of one user's scope, by user and name."""
        from lakewarden.tables.pins import tags_of

        found = tags_of(self._parts.warehouse.state, find_table(self._parts.warehouse.catalog.read(), TableName.parse(table)).id)
        return sorted((tag for tag in found if user in (None, tag.user)), key=lambda tag: (tag.user or "", tag.name))

    def drop_tag(self, table: str, name: str, *, user: str | None = None) -> None:
        """Removes a tag; the next vacuum may remove the version.

        Raises:
            NotFound: the table does not exist, or the scope has no tag of that name.
        """
        from lakewarden.tables.pins import drop_tag

        catalog, scope = self._parts.warehouse.catalog.read(), Scope(TableName.parse(table), user)
        self._parts.warehouse.target(catalog, scope)  # raises if the user is not valid
        drop_tag(self._parts.warehouse.state, find_table(catalog, scope.table).id, user, name)


class Tags(TagCalls):
    """`lake.catalog.tags`: the same by shorter names."""

    add = TagCalls.tag
    of = TagCalls.tags
    drop = TagCalls.drop_tag
