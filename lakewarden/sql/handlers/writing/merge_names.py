"""The columns of a MERGE that name the table of its source with a namespace, as in `chat.users.id`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from lakewarden.sql.context import Context
from lakewarden.sql.short_names import ShortNames
from lakewarden.sql.statements.base import Ref
from lakewarden.sql.statements.rows import Merge, When


def naming_source_shortly(context: Context, statement: Merge) -> Merge:
    """The statement with the name for its source that the relation of the source's rows has in queries."""
    source = statement.source
    if not isinstance(source, exp.Table) or source.alias:
        return statement
    namespace = context.named(Ref(source.name, source.db or None)).namespace
    node = exp.table_(source.name, namespace, quoted=True)
    parts = [statement.on, *(each for when in statement.whens for each in _parts(when))]
    tree = exp.select(*(part.copy() for part in parts), copy=False).from_(node, copy=False)
    ShortNames(tree, {id(node): Ref(source.name, namespace)}).give(node)
    on, *others = tree.expressions
    left = iter(others)
    return replace(statement, on=on, source_alias=node.alias, whens=tuple(_with(when, left) for when in statement.whens))


def _parts(when: When) -> Iterator[exp.Expr]:
    yield from () if when.condition is None else (when.condition,)
    yield from when.values


def _with(when: When, parts: Iterator[exp.Expr]) -> When:
    """The same WHEN with these parts instead of its own."""
    condition = None if when.condition is None else next(parts)
    return replace(when, condition=condition, values=tuple(next(parts) for _ in when.values))
