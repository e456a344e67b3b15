"""`delta('URI' [, version => n] [, timestamp => '…'])` in FROM: the rows of any Delta table, for the operator alone.

Nobody else names places: what a URI reaches is reached with the credentials of the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from sqlglot import exp

from lakewarden.base.connection import Location
from lakewarden.catalog.access import OPERATOR
from lakewarden.delta.past import AsOf
from lakewarden.errors import InvalidArgument, PermissionDenied
from lakewarden.sql.context import Context

if TYPE_CHECKING:
    import pyarrow as pa

Tree = TypeVar("Tree", bound=exp.Expr)

_NAME = "delta"
_SAYS = "write delta('URI'), delta('URI', version => 3) or delta('URI', timestamp => '2026-11-21T08:30:00Z')"


@dataclass(frozen=True)
class ForeignRelation:
    """One place in a query that reads a Delta table by its URI."""

    location: Location
    as_of: AsOf | None
    columns: frozenset[str] | None
    """Those that the query may need, in lower case; None for all."""

    def rows(self) -> pa.Table:
        """Raises as `open_foreign` and `all_rows`."""
        from lakewarden.delta.reading.foreign import open_foreign  # imports Delta, which a query without tables does not need
        from lakewarden.delta.replay.columns import DeltaColumns, all_rows

        state = open_foreign(self.location, self.as_of)
        there = DeltaColumns.of(state.metadata).schema.names
        return all_rows(state, [name for name in there if self.columns is None or name.lower() in self.columns] or there[:1])


def taken_apart(context: Context, query: Tree) -> tuple[Tree, dict[str, ForeignRelation]]:
    """The query with a name for each such relation, and what the names mean.

    Raises:
        PermissionDenied: the session is not the operator's.
        InvalidArgument: an argument is missing, unknown, or not a constant.
    """
    if not any(map(_is_foreign, query.find_all(exp.Table))):
        return query, {}
    if context.principal.role != OPERATOR.role or context.principal.actor is not None:
        raise PermissionDenied("delta('URI') reads any place that the process reaches: only the operator may use it")
    made, found = query.copy(), dict[str, ForeignRelation]()
    for node in [node for node in made.find_all(exp.Table) if _is_foreign(node)]:
        name = f"{_NAME} {len(found) + 1}"
        found[name] = _relation(context, node)
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(_NAME)))
        node.set("this", exp.to_identifier(name, quoted=True))
    columns = _columns(made)
    return made, {name: replace(each, columns=columns) for name, each in found.items()}


def _is_foreign(node: exp.Table) -> bool:
    return isinstance(node.this, exp.Anonymous) and str(node.this.this).lower() == _NAME and not node.db


def _relation(context: Context, node: exp.Table) -> ForeignRelation:
    uris, named = [], dict[str, exp.Expr]()
    for argument in node.this.expressions:
        if isinstance(argument, exp.Kwarg):
            named[argument.this.name.lower()] = argument.expression
        else:
            uris.append(_text(argument))
    if len(uris) != 1 or named.keys() - {"version", "timestamp"} or node.args.get("version"):
        raise InvalidArgument(f"{node.this.sql()[:200]}: {_SAYS}")
    version, timestamp = named.get("version"), named.get("timestamp")
    as_of = AsOf.of(None if version is None else _number(version), None if timestamp is None else _text(timestamp))
    return ForeignRelation(context.catalog.location_of(uris[0]), as_of, None)


def _text(argument: exp.Expr) -> str:
    if not isinstance(argument, exp.Literal) or not argument.is_string:
        raise InvalidArgument(f"{argument.sql()[:200]} is not a constant text: {_SAYS}")
    return argument.name


def _number(argument: exp.Expr) -> int:
    if not isinstance(argument, exp.Literal) or argument.is_string or not argument.name.isdigit():
        raise InvalidArgument(f"{argument.sql()[:200]} is not a version: versions are whole numbers from 0")
    return int(argument.name)


def _columns(query: exp.Expr) -> frozenset[str] | None:
    """The names of columns in the query; None where it may need others: `*`, a row as a value, a join by equal names."""
    stars = (star for star in query.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    by_name = (join.args.get("using") or join.method for join in query.find_all(exp.Join))
    if next(stars, None) is not None or next(query.find_all(exp.Columns), None) is not None or any(by_name):
        return None
    names = frozenset(column.name.lower() for column in query.find_all(exp.Column))
    aliases = {table.alias_or_name.lower() for table in query.find_all(exp.Table, exp.Subquery)}
    renamed = any(alias.columns for alias in query.find_all(exp.TableAlias))
    return None if renamed or names & aliases else names


def foreign_rows(found: Mapping[str, ForeignRelation]) -> dict[str, pa.Table]:
    return {name: each.rows() for name, each in found.items()}
