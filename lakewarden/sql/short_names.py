"""The names that DuckDB gets for the tables of a query, which columns may name with their namespace: `chat.t.id`.

DuckDB gets each table as a relation with an alias. That of `chat.t` is `t`, and `chat.t.id` becomes `t.id`. If something else in
the query is called `t`, too, `chat.t` gets an alias of its own: else a column could become one of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping

from sqlglot import exp

from lakewarden.sql.statements.base import Ref


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
