"""Finds what a query refers to, from DuckDB's own tree of the exact text that it will run.

`sql.relations` reads sqlglot's tree of the same query: a difference between the two parsers grants nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.errors import BadSyntax, LakewardenError, PermissionDenied, Unsupported
from lakewarden.sql.depth import deeper
from lakewarden.sql.query_engine.bounds import check_bounded
from lakewarden.sql.query_engine.functions import SCALAR_FUNCTIONS, SESSION_FUNCTIONS, TABLE_FUNCTIONS

_RELATIONS = frozenset({"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "PIVOT", "EMPTY", "COLUMN_DATA"})
_OUTSIDE = re.compile(
    "(st_)?(read|write|copy|load|install|attach|pragma|duckdb|pg|postgres|mysql|sqlite|http)_.*"
    "|.*_(scan|query|attach|execute|metadata)|getenv|sql_auto_complete|shell|system"
)
"""Names of functions in DuckDB's extensions and its command line that reach outside; none of them is loaded."""

_ENTRIES = {"left", "right", "from_table", "source"}


@dataclass(frozen=True)
class Reach:
    """What a query names. It depends on its text alone."""

    refused: str | None
    """The first function of the tree that no query may call."""
    relations: tuple[str, ...]
    """The relations that the query does not define itself."""
    qualified: tuple[str, ...]
    """Those of `relations` that it names with a catalog or a schema."""

    def check(self, given: frozenset[str]) -> None:
        """Raises:
        PermissionDenied: the query reads a relation that was not given to it.
        """
        for name in (*self.qualified, *(name for name in self.relations if not {name, name.lower()} & given)):
            raise PermissionDenied(f"relation {name!r} does not belong to this query")


def reach_of(text: str) -> Reach:
    """Reads a query's tree as DuckDB writes it (`json_serialize_sql`).

    Raises:
        PermissionDenied: there is more than one query, or it reads something that is not a relation.
        InvalidArgument: it formats by a pattern that could make any number of characters.
        BadSyntax, Unsupported: DuckDB does not read it as a query.
    """
    tree = _tree(text)
    if tree.get("error"):
        raise _refused(tree)
    if len(tree["statements"]) != 1:
        raise PermissionDenied("a statement takes one query")
    nodes = list(_nodes(tree))
    refused = _first_refused(nodes)
    own = {name.lower() for node in nodes for name in _ctes(node)}
    named = [node for node in nodes if node.get("type") == "BASE_TABLE"]
    relations = (str(node["table_name"]) for node in named)
    return Reach(
        refused,
        tuple(name for name in relations if name.lower() not in own),
        tuple(str(node["table_name"]) for node in named if node["catalog_name"] or node["schema_name"]),
    )


def _first_refused(nodes: Iterable[Mapping[str, Any]]) -> str | None:
    for node in nodes:
        for name in _refused_functions(node):
            return name
        check_bounded(node)
    return None


def reaches_outside(function: str) -> bool:
    """Whether a missing function belongs to an extension of DuckDB."""
    return _OUTSIDE.fullmatch(function.lower()) is not None


def _tree(text: str) -> Mapping[str, Any]:
    try:
        with deeper():
            found: Mapping[str, Any] = json.loads(text)
    except RecursionError as error:
        raise BadSyntax("the query is nested too deep to be read") from error
    return found


def _refused(tree: Mapping[str, Any]) -> LakewardenError:
    said = str(tree.get("error_message", "it is not a query"))
    if tree.get("error_type") == "parser":
        return BadSyntax(said)
    return Unsupported(f"only queries run here: {said}")


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _ctes(node: Mapping[str, Any]) -> Iterator[str]:
    for entry in (node.get("cte_map") or {}).get("map", ()):
        yield str(entry["key"])
    if node.get("type") == "RECURSIVE_CTE_NODE":
        yield str(node["cte_name"])


def _refused_functions(node: Mapping[str, Any]) -> Iterator[str]:
    """The functions of a node that no query may call.

    Raises:
        PermissionDenied: it reads something that is not a relation of a query.
    """
    if "function_name" in node and not _is_scalar(name := str(node["function_name"])):
        yield name
    if node.get("type") == "TABLE_FUNCTION" and (name := str(node["function"]["function_name"])).lower() not in TABLE_FUNCTIONS:
        yield name
    for key in _ENTRIES & node.keys():
        entry = node[key]
        is_relation = isinstance(entry, dict) and "alias" in entry and "sample" in entry
        if is_relation and entry["type"] not in _RELATIONS:
            raise PermissionDenied(f"{entry['type']} is not available in queries")


def _is_scalar(name: str) -> bool:
    """Allowed where a value is computed; operators are functions without a letter in their name."""
    lower = name.lower()
    known = lower in SCALAR_FUNCTIONS or lower in TABLE_FUNCTIONS or lower in SESSION_FUNCTIONS
    return known or not any(letter.isalnum() for letter in lower)
