"""Finds the relations that a query names, resolves them, and gives each the name that DuckDB will use.

A name is the query's own (a CTE), a view, or a table; anything else in FROM is refused. Views are replaced by their
queries, so they run with the rights of the session that reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sqlglot import exp

from lakewarden.base.scope import TableName
from lakewarden.catalog.model import View
from lakewarden.catalog.names import check_namespace, check_table
from lakewarden.delta.past import AsOf
from lakewarden.errors import InvalidArgument, PermissionDenied, Unsupported
from lakewarden.sql.dialect import query_in
from lakewarden.sql.ref import Ref

# The names that DuckDB gets for the tables of a query, which columns may name with their namespace: `chat.t.id`.
#
# DuckDB gets each table as a relation with an alias. That of `chat.t` is `t`, and `chat.t.id` becomes `t.id`. If something else
# in the query is called `t`, too, `chat.t` gets an alias of its own: else a column could become one of the other.


class ShortNames:
    """Of one query, whose nodes are changed in place. It looks once for all: there may be thousands of tables and of columns."""

    def __init__(self, tree: exp.Expr, tables: Mapping[int, Ref]) -> None:
        """
        Args:
            tables: what the nodes that name a table mean, by their `id`; with a namespace, where one is known.
        """
        self._tables = tables
        self._sources: dict[int, dict[str, list[exp.Expr]]] = defaultdict(lambda: defaultdict(list))
        meanings: dict[str, set[Hashable]] = defaultdict(set)
        for node in tree.find_all(exp.Table, exp.DerivedTable):
            name = node.alias_or_name.lower()
            if name:
                self._sources[id(node.find_ancestor(exp.Select))][name].append(node)
                meanings[name].add(self._meaning(node, name))
        self._shared = frozenset(name for name, meant in meanings.items() if len(meant) > 1)
        self._columns: dict[int, dict[str, list[exp.Column]]] = {}

    def give(self, node: exp.Table) -> None:
        """Gives a table its alias, and its columns that name the namespace too."""
        ref, name = self._tables[id(node)], node.alias_or_name
        if name.lower() != ref.name.lower():
            return  # by an alias of the query's own, which takes no namespace
        own = str(ref) if name.lower() in self._shared and ref.namespace else name
        for column in self._within(node, name.lower()):
            if self._is_of(column, node, ref):
                column.set("table", exp.to_identifier(own, quoted=True))
                column.set("db", None)
        alias = node.args.get("alias") or exp.TableAlias()
        alias.set("this", exp.to_identifier(own, quoted=True))
        node.set("alias", alias)

    def _meaning(self, node: exp.Expr, name: str) -> Hashable:
        """The same for two nodes only if they are the same table, under its own name."""
        ref = self._tables.get(id(node))
        if ref is None or ref.namespace is None or ref.name.lower() != name:
            return id(node)
        return (ref.namespace.lower(), name)

    def _within(self, node: exp.Table, name: str) -> Iterable[exp.Column]:
        """The columns in the SELECT of a node that may be its own."""
        select = node.find_ancestor(exp.Select)
        if select is None:
            return ()
        if id(select) not in self._columns:
            self._columns[id(select)] = defaultdict(list)
            for column in select.find_all(exp.Column):
                if column.table:
                    self._columns[id(select)][column.table.lower()].append(column)
        return self._columns[id(select)].get(name, ())

    def _is_of(self, column: exp.Column, node: exp.Table, ref: Ref) -> bool:
        if column.args.get("db"):
            return ref.namespace is not None and column.text("db").lower() == ref.namespace.lower()
        return ref.name.lower() in self._shared and self._nearest(column) == [id(node)]

    def _nearest(self, column: exp.Column) -> list[int]:
        """The nodes that a column without a namespace may mean: those of its name in the innermost SELECT that has one."""
        select = column.find_ancestor(exp.Select)
        while select is not None:
            found = self._sources[id(select)].get(column.table.lower())
            if found:
                return [id(each) for each in found]
            select = select.find_ancestor(exp.Select)
        return []


SYSTEM = "system"
SEQ = "_seq"
DEEPEST = 16
"""The most levels of views. Also ends views that were replaced until they name each other."""


@dataclass(frozen=True)
class ViewQuery:
    """A view's query, and the namespace of its unqualified names."""

    query: exp.Query
    namespace: str


_ENGINE_SCHEMAS = ("temp", "memory")
_ENGINE_TABLES = ("duckdb_", "sqlite_", "pragma_", "pg_")

Find = Callable[[Ref, str | None], TableName | ViewQuery]
"""Resolves a name for the session; the second argument is the default namespace. Raises NotFound or InvalidArgument."""


@dataclass(frozen=True)
class VersionedName:
    """A name in a query, and the version that the query means by it; None for the table as it is."""

    ref: Ref
    as_of: AsOf | None


@dataclass(frozen=True)
class Relation:
    """A table as a query reads it: as it is, or a version of its past."""

    table: TableName
    as_of: AsOf | None = None

    def __str__(self) -> str:
        return str(self.table) if self.as_of is None else f"{self.table} as of {self.as_of}"


@dataclass(frozen=True)
class ResolvedQuery:
    """A query over `tables`, each under the name `str(relation)`, and the nodes that name each."""

    query: exp.Query
    tables: dict[Relation, list[exp.Table]] = field(default_factory=dict)


def names(query: exp.Expr) -> Iterator[VersionedName]:
    """The tables and views that a query names, without those inside views.

    Raises:
        PermissionDenied: a name is outside the session's tables.
        Unsupported: a version of what is not a table.
    """
    for node in _named(query):
        yield VersionedName(checked(node), _as_of(node))


def as_they_are(query: exp.Expr) -> exp.Expr:
    """The query without the versions that it names, which are not part of DuckDB's SQL."""
    if not any(node.args.get("version") for node in query.find_all(exp.Table)):
        return query
    made = query.copy()
    for node in made.find_all(exp.Table):
        node.set("version", None)
    return made


def check_view(named: VersionedName) -> None:
    """Raises Unsupported: a version of a view."""
    if named.as_of is not None:
        raise Unsupported(f"{named.ref} is a view, which has no versions: name the version of each table in its query")


def resolved(query: exp.Query, find: Find, namespace: str | None, extra: Container[str] = ()) -> ResolvedQuery:
    """A copy of the query in which every name is one that DuckDB knows.

    Args:
        namespace: the namespace of unqualified names.
        extra: names that DuckDB receives unchanged.

    Raises:
        PermissionDenied, NotFound, InvalidArgument: a name is outside the session's tables, unknown, or without a namespace.
        Unsupported: views are nested too deep.
    """
    made = ResolvedQuery(query.copy())
    nodes = [node for node in _named(made.query) if node.db or node.name not in extra]
    _resolve_all(made, made.query, nodes, find, namespace, 0)
    return made


def _resolve_all(
    made: ResolvedQuery, tree: exp.Expr, nodes: Sequence[exp.Table], find: Find, namespace: str | None, depth: int
) -> None:
    if depth > DEEPEST:
        raise Unsupported(f"views are nested more than {DEEPEST} deep")
    refs = {id(node): checked(node) for node in nodes}
    names = ShortNames(tree, {place: Ref(ref.name, ref.namespace or namespace) for place, ref in refs.items()})
    for node in nodes:
        _resolve(made, node, refs[id(node)], names, find, namespace, depth)


def _resolve(
    made: ResolvedQuery, node: exp.Table, ref: Ref, names: ShortNames, find: Find, namespace: str | None, depth: int
) -> None:
    named = VersionedName(ref, _as_of(node))
    found = find(ref, namespace)
    names.give(node)
    if isinstance(found, TableName):
        relation = Relation(found, named.as_of)
        node.set("this", exp.to_identifier(str(relation), quoted=True))
        node.set("db", None)
        node.set("version", None)
        made.tables.setdefault(relation, []).append(node)
        return
    check_view(named)
    inner = found.query.copy()
    holder = exp.Subquery(this=inner, alias=node.args["alias"].copy())
    for key in ("joins", "pivots", "sample"):
        if node.args.get(key):
            holder.set(key, node.args[key])
    _resolve_all(made, inner, list(_named(inner)), find, found.namespace, depth + 1)
    node.replace(holder)


def checked(node: exp.Table) -> Ref:
    """Raises PermissionDenied: the name means a file, another catalog, or one of the engine's own schemas."""
    if node.catalog:
        raise PermissionDenied(f"{node.catalog}.{node.db}.{node.name} is in another catalog; a table is namespace.table")
    return check_ref(Ref(node.name, node.db or None))


@lru_cache(maxsize=1024)
def check_ref(ref: Ref) -> Ref:
    """Raises as `checked`."""
    place = ref.namespace
    if place is None and "." in ref.name:
        raise PermissionDenied(f"{ref.name!r} would be a file; a query reads tables only")
    if (place or "").lower() in _ENGINE_SCHEMAS or (place is None and ref.name.lower().startswith(_ENGINE_TABLES)):
        raise PermissionDenied(f"{ref} belongs to the engine; a query reads tables only")
    try:
        if place is not None and place.lower() != SYSTEM:
            check_namespace(place)
        check_table(ref.name)
    except InvalidArgument as error:
        raise PermissionDenied(f"relation {ref} is not one of your tables: {error.message}") from error
    return ref


def _named(tree: exp.Expr) -> Iterator[exp.Table]:
    """The nodes in FROM that are names, except those of CTEs.

    Raises:
        Unsupported: a version of what is not a table.
    """
    places: dict[int, _Places] = {}
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and (node.db or not _names_cte(node, places)):
            yield node
        elif node.args.get("version"):
            raise Unsupported(f"{node.name} is not a table and has no versions: name the version of a table inside it")


def _as_of(node: exp.Table) -> AsOf | None:
    version = node.args.get("version")
    if version is None:
        return None
    given = version.expression.name
    return AsOf.of(version=int(given)) if version.name == "VERSION" else AsOf.of(timestamp=given)


@dataclass(frozen=True)
class _Places:
    """The CTEs of one WITH: the first place of each name, in lower case, and the place of each node."""

    names: dict[str, int]
    nodes: dict[int, int]

    @classmethod
    def of(cls, with_: exp.With) -> _Places:
        names: dict[str, int] = {}
        for place, each in enumerate(with_.expressions):
            names.setdefault(each.alias.lower(), place)
        return cls(names, {id(each): place for place, each in enumerate(with_.expressions)})


def _names_cte(node: exp.Table, places: dict[int, _Places]) -> bool:
    """Whether SQL's scoping lets the node see a CTE of its name: of a CTE before its own, or of its own if it is recursive."""
    name = node.name.lower()
    child: exp.Expr = node
    parent = node.parent
    while parent is not None:
        with_ = parent if isinstance(parent, exp.With) else parent.args.get("with_")
        if with_ is not None and child is not with_:
            known = places.get(id(with_)) or places.setdefault(id(with_), _Places.of(with_))
            first = known.names.get(name)
            own = known.nodes.get(id(child), 0) if with_ is parent else None
            if first is not None and (own is None or first < own or (with_.recursive and child.alias.lower() == name)):
                return True
        child, parent = parent, parent.parent
    return False


# The query of a stored view, and what it names.
def view_query(view: View) -> ViewQuery:
    """Raises:
    BadSyntax, InvalidArgument: its text is not a query.
    """
    found = query_in(view.text)
    if found is None:
        raise InvalidArgument(f"the text of view {view.name} is not a query")
    return ViewQuery(found, view.name.namespace)


def read_by_view(view: View) -> Iterator[TableName]:
    """What a view's query names, and not what the views among it name. Raises as `view_query` and `relations.names`."""
    found = view_query(view)
    for named in names(found.query):
        yield TableName(named.ref.namespace or found.namespace, named.ref.name)
