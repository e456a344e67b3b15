"""The tags of a warehouse: names of versions that no vacuum removes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.base.scope import Scope, TableName
from lakewarden.tables.warehouse import Warehouse, find_table

if TYPE_CHECKING:
    from lakewarden.tables.tags import Tag


@dataclass(frozen=True)
class Tags:
    """`lake.catalog.tags`."""

    warehouse: Warehouse

    def add(self, table: str, name: str, *, user: str | None = None, version: int | None = None) -> Tag:
        """Names a version of a scope, by default the newest; no vacuum removes what a tag names."""
        from lakewarden.tables.tags import add_tag

        catalog = self.warehouse.catalog.read()
        scope = Scope(TableName.parse(table), user)
        target = self.warehouse.target(catalog, scope)
        return add_tag(self.warehouse.state, find_table(catalog, scope.table).id, target, name, version)

    def of(self, table: str, *, user: str | None = None) -> list[Tag]:
        """The tags of a table, or of one user's scope, by user and name."""
        from lakewarden.tables.tags import tags_of

        found = tags_of(self.warehouse.state, find_table(self.warehouse.catalog.read(), TableName.parse(table)).id)
        return sorted((tag for tag in found if user in (None, tag.user)), key=lambda tag: (tag.user or "", tag.name))

    def drop(self, table: str, name: str, *, user: str | None = None) -> None:
        """Removes a tag; the next vacuum may remove the version.

        Raises:
            NotFound: the table does not exist, or the scope has no tag of that name.
        """
        from lakewarden.tables.tags import drop_tag

        catalog, scope = self.warehouse.catalog.read(), Scope(TableName.parse(table), user)
        self.warehouse.target(catalog, scope)  # raises if the user is not valid
        drop_tag(self.warehouse.state, find_table(catalog, scope.table).id, user, name)
