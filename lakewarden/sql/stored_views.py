"""The query of a stored view, and what it names."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import View
from lakewarden.errors import InvalidArgument
from lakewarden.sql.parse import parse_query
from lakewarden.sql.relations import ViewQuery, names
from lakewarden.sql.statements.rows import Query


def view_query(view: View) -> ViewQuery:
    """Raises:
    BadSyntax, InvalidArgument: its text is not a query.
    """
    found = parse_query(view.text)
    if not isinstance(found, Query):
        raise InvalidArgument(f"the text of view {view.name} is not a query")
    return ViewQuery(found.query, view.name.namespace)


def read_by_view(view: View) -> Iterator[TableName]:
    """What a view's query names, and not what the views among it name. Raises as `view_query` and `relations.names`."""
    found = view_query(view)
    for named in names(found.query):
        yield TableName(named.ref.namespace or found.namespace, named.ref.name)
