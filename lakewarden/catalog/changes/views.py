"""Views of views: none may read itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog, View
from lakewarden.errors import InvalidArgument

Reads = Callable[[View], Iterable[TableName]]
"""The tables and views that the query of a view names, those inside of other views apart."""


def check_view_of_itself(catalog: Catalog, view: View, reads: Reads) -> None:
    """Follows a view's query through the views of the catalog, which holds it already. Names in SQL ignore case.

    Raises:
        InvalidArgument: the view reads itself. No query could.
    """
    views = {_folded(name): one for name, one in catalog.views.items()}
    ways: dict[str, tuple[str, ...]] = {_folded(view.name): ()}
    left = [view]
    while left:
        reader = left.pop()
        way = ways[_folded(reader.name)]
        for name in map(_folded, reads(reader)):
            if name == _folded(view.name):
                through = f" through {', '.join(way)}" if way else ""
                raise InvalidArgument(f"view {view.name} would read itself{through}; name what it is to read instead")
            if name in views and name not in ways:
                ways[name] = (*way, str(views[name].name))
                left.append(views[name])


def _folded(name: TableName) -> str:
    return str(name).lower()
