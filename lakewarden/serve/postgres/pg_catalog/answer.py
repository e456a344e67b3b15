"""Answers queries about PostgreSQL's catalog. They read what the session may see, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from lakewarden.errors import BadSyntax, LakewardenError, NotFound, PermissionDenied
from lakewarden.serve.postgres.pg_catalog.functions import Caller
from lakewarden.serve.postgres.pg_catalog.relations import VisibleCatalog
from lakewarden.serve.postgres.pg_catalog.rewrite import NAMES, asks, rewritten, tree_of
from lakewarden.serve.postgres.state import State
from lakewarden.serve.postgres.things import CatalogField, Thing
from lakewarden.serve.postgres.wire.kinds import OID, Kind, kind_of
from lakewarden.sql.grammar.parameters import Value
from lakewarden.sql.parse import Single
from lakewarden.sql.results import ResultRows
from lakewarden.sql.system.visibility import VisibleObjects

_MAY_ASK = re.compile(
    rf"\b(pg_|has_|txid_|inet_|to_reg|reg(class|type|proc|namespace|role)|information_schema|({'|'.join(sorted(NAMES))})\b)",
    re.IGNORECASE,
)
"""Found in the text of each query that the parser then decides about."""
_QUERIES = ("SELECT", "WITH", "(", "VALUES", "TABLE")


def asks_catalog(single: Single) -> bool:
    """Whether the statement is a query about PostgreSQL's catalog, or about the session as PostgreSQL has it."""
    if single.tokens[0].upper() not in _QUERIES or not _MAY_ASK.search(single.text):
        return False
    try:
        return asks(tree_of(single.text))
    except BadSyntax:
        return False  # our own parser says what is wrong with it


def answered(state: State, single: Single, values: Sequence[Value]) -> ResultRows:
    """Raises:
    Unsupported, InvalidArgument: it asks for what is not served.
    """
    seen = state.session.seen()
    described = VisibleCatalog(seen, state.variables, lambda: _views(state, seen))
    made = rewritten(tree_of(single.text), _caller(state, described), values)
    found = state.session.over(made.sql, {name: described.relation(full) for name, full in made.relations.items()})
    return replace(found, table=_with_lists_of_oids(found.table))


def parameter_kinds(single: Single) -> dict[int, Kind]:
    """The types of the parameters of which something is known: drivers give OIDs as lists."""
    casts = tree_of(single.text).find_all(exp.Cast)
    numbers = [each.this.name for each in casts if isinstance(each.this, exp.Parameter) and each.to.this == exp.DType.ARRAY]
    return {int(number): OID.listed for number in numbers if number.isdecimal()}


def _with_lists_of_oids(rows: pa.Table) -> pa.Table:
    """The catalog's lists of whole numbers are OIDs: drivers ask for the type of any other list, by a query that has these."""
    oids = pa.list_(pa.uint32())
    fields = [field.with_type(oids) if field.type == pa.list_(pa.int64()) else field for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _caller(state: State, described: VisibleCatalog) -> Caller:
    seen = described.seen
    return Caller(seen.principal.user, described.database, seen.namespace, state.variables, lambda name: _number(described, name))


def _number(described: VisibleCatalog, name: str) -> int | None:
    mine = f"{described.seen.namespace}.{name}"
    return described.oids.get(name) or described.oids.get(mine)


def _views(state: State, seen: VisibleObjects) -> tuple[Thing, ...]:
    """The views whose queries the session may run."""
    if seen.version not in state.views:
        state.views = {seen.version: tuple(_described_views(state, seen))}
    return state.views[seen.version]


def _described_views(state: State, seen: VisibleObjects) -> Iterator[Thing]:
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
        fields = tuple(CatalogField(field.name, kind_of(field.type)) for field in schema)
        yield Thing(name.namespace, name.name, fields, is_view=True)
