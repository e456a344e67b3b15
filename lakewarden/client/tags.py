"""The tags of a warehouse: names of versions that no vacuum removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.base.scope import Scope, TableName
from lakewarden.client.parts import Noun
from lakewarden.tables.warehouse import find_table

if TYPE_CHECKING:
    from lakewarden.tables.pins import Tag


class TagCalls(Noun):
    """The calls of `lake.catalog.tags`, as `Lakehouse` has them."""

    def tag(self, table: str, name: str, *, user: str | None = None, version: int | None = None) -> Tag:
        """Names a version of a scope, by default the newest; no vacuum removes what a tag names."""
        from lakewarden.tables.pins import add_tag

        catalog = self._parts.warehouse.catalog.read()
        scope = Scope(TableName.parse(table), user)
        target = self._parts.warehouse.target(catalog, scope)
        return add_tag(self._parts.warehouse.state, find_table(catalog, scope.table).id, target, name, version)

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
