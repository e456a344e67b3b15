"""Answers queries about PostgreSQL's catalog. They read what the session may see, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp

from lakewarden.errors import BadSyntax, LakewardenError, NotFound, PermissionDenied
from lakewarden.serve.postgres.pg_catalog.functions import Caller
from lakewarden.serve.postgres.pg_catalog.relations import Described
from lakewarden.serve.postgres.pg_catalog.rewrite import asks, rewritten, tree_of
from lakewarden.serve.postgres.state import State
from lakewarden.serve.postgres.things import Field, Thing
from lakewarden.serve.postgres.wire.kinds import kind_of
from lakewarden.sql.grammar.parameters import Value
from lakewarden.sql.parse import Single
from lakewarden.sql.results import Rows
from lakewarden.sql.system.seen import Seen

_MAY_ASK = re.compile(
    r"\bpg_|\bto_reg|\breg(class|type|proc|namespace|role)|information_schema|\bcurrent_(schema|catalog|database|setting)|\bversion\b"
    r"|\bset_config\b",
    re.IGNORECASE,
)
_QUERIES = ("SELECT", "WITH", "(", "VALUES", "TABLE")


def asks_catalog(single: Single) -> bool:
    """Whether the statement is a query about PostgreSQL's catalog, or about the session as PostgreSQL has it."""
    if single.tokens[0].upper() not in _QUERIES or not _MAY_ASK.search(single.text):
        return False
    try:
        return asks(tree_of(single.text))
    except BadSyntax:
        return False  # our own parser says what is wrong with it


def answered(state: State, single: Single, values: Sequence[Value]) -> Rows:
    """Raises:
    Unsupported, InvalidArgument: it asks for what is not served.
    """
    seen = state.session.seen()
    described = Described(seen, state.variables, lambda: _views(state, seen))
    made = rewritten(tree_of(single.text), _caller(state, described), values)
    return state.session.over(made.sql, {name: described.relation(full) for name, full in made.relations.items()})


def _caller(state: State, described: Described) -> Caller:
    seen = described.seen
    return Caller(seen.principal.user, described.database, seen.namespace, state.variables, lambda name: _number(described, name))


def _number(described: Described, name: str) -> int | None:
    mine = f"{described.seen.namespace}.{name}"
    return described.oids.get(name) or described.oids.get(mine)


def _views(state: State, seen: Seen) -> tuple[Thing, ...]:
    """The views whose queries the session may run."""
    if seen.version not in state.views:
        state.views = {seen.version: tuple(_described_views(state, seen))}
    return state.views[seen.version]


def _described_views(state: State, seen: Seen) -> Iterator[Thing]:
    for name in seen.views:
        all_of = exp.select("*").from_(exp.table_(name.name, name.namespace, quoted=True))
        (statement,) = state.session.parsed(all_of.sql("duckdb"))
        try:
            rows = state.session.described(statement)
        except (PermissionDenied, NotFound):
            continue  # of a table that the session may not read, or that is gone
        except LakewardenError:
            rows = None  # it is there, and cannot be read at the moment
        schema = () if rows is None else rows.table.schema
        fields = tuple(Field(field.name, kind_of(field.type)) for field in schema)
        yield Thing(name.namespace, name.name, fields, is_view=True)
