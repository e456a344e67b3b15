"""Answers queries about PostgreSQL's catalog. They read what the session may see, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lakewarden.errors import BadSyntax, InvalidArgument, LakewardenError, NotFound, PermissionDenied, Unsupported
from lakewarden.serve.postgres.catalog_functions import FUNCTIONS, PREFIX, class_number, looked_up, relation, type_name
from lakewarden.serve.postgres.catalog_relations import CatalogField, Thing, VisibleCatalog
from lakewarden.serve.postgres.catalog_shapes import OURS, SHAPES, VIEWS
from lakewarden.serve.postgres.kinds import OID, Kind, kind_of
from lakewarden.serve.postgres.state import State
from lakewarden.sql.dialect import Value
from lakewarden.sql.parse import Single
from lakewarden.sql.results import ResultRows
from lakewarden.sql.system_listings import VisibleObjects
from lakewarden.sql.text_bounds import deeper

# A query over PostgreSQL's catalog, in the words of DuckDB over the relations that are served.
_OIDS = re.compile(r"::\s*(?:pg_catalog\.)?oid\s*\[\s*\]", re.IGNORECASE)
"""What sqlglot does not read; an OID is a number."""
_SCHEMAS = ("pg_catalog", "information_schema")
_PREFIXES = ("pg_", "has_", "_pg_", "txid_", "inet_", "to_reg")
"""What the names of PostgreSQL's own functions begin with."""
_OTHERS = frozenset(
    {"nextval", "currval", "setval", "lastval", "quote_ident", "quote_literal", "quote_nullable", "row_security_active"}
)
"""Functions that PostgreSQL has, that have no such name, and that are not served."""
_EVERYWHERE = frozenset({"current_user", "session_user", "user", "current_role"})
"""Those that queries over tables have as well."""
NAMES = frozenset(FUNCTIONS) - _EVERYWHERE | _OTHERS
_TEXTS = ("regproc", "regnamespace", "regrole", "name", "char", "bpchar", "regprocedure")
_BUILT: dict[type[exp.Expr], str] = {
    exp.CurrentSchema: "current_schema",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentDatabase: "current_database",
    exp.CurrentVersion: "version",
}


def tree_of(text: str) -> exp.Expr:
    """Raises BadSyntax: it is not a query in PostgreSQL's words."""
    try:
        with deeper():
            return parse_one(_OIDS.sub("::bigint[]", text), read="postgres")
    except (SqlglotError, RecursionError) as error:
        raise BadSyntax(f"the query is not understood: {str(error).splitlines()[0]}") from error


def asks(tree: exp.Expr) -> bool:
    """Whether the query is about PostgreSQL's catalog, or about the session as PostgreSQL has it."""
    return any(_is_named(node) for node in tree.find_all(exp.Table, exp.Func, exp.Cast))


def _is_named(node: exp.Expr) -> bool:
    match node:
        case exp.Table():
            return node.db.lower() in _SCHEMAS or (not node.db and node.name.lower().startswith("pg_"))
        case exp.Cast():
            return _type(node).startswith("reg")
        case _:
            return (name := _function(node)) in NAMES or (isinstance(node, exp.Anonymous) and name.startswith(_PREFIXES))


def rewritten(tree: exp.Expr, of: VisibleCatalog, values: Sequence[Value]) -> tuple[str, dict[str, str]]:
    """The text for DuckDB, and the relations in it by the names that they have there.

    Raises Unsupported: it asks for what is not served, by its name; or for rows of tables as well.
    """
    found: dict[str, str] = {}
    tree = tree.transform(lambda node: _filled(node, values))
    ctes = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    for node in list(tree.find_all(exp.Table)):
        _place(node, found, ctes)
    for column in list(tree.find_all(exp.Column)):
        if column.args.get("db") is not None:
            column.set("db", None)
            column.set("catalog", None)
    tree = _replaced(tree, of)
    for node in tree.find_all(exp.Table):  # those of our own, in the functions' answers
        if node.name.startswith(PREFIX):
            found[node.name] = node.name.removeprefix(PREFIX)
    return tree.sql("duckdb"), found


def _filled(node: exp.Expr, values: Sequence[Value]) -> exp.Expr:
    if not isinstance(node, exp.Parameter):
        return node
    number = node.this.name
    if not number.isdecimal() or not 1 <= int(number) <= len(values):
        raise InvalidArgument(f"parameter {number} has no value")
    value = values[int(number) - 1]
    match value:
        case bytes():
            return exp.convert(value.decode(errors="replace"))
        case tuple():
            return exp.convert(list(value))  # a tuple would be a row
        case _:
            return exp.convert(value)


def _place(node: exp.Table, found: dict[str, str], ctes: Container[str], *, in_view: bool = False) -> None:
    """Gives a relation its name in DuckDB's text, and the name that the query knows it by; a view is its query."""
    name, schema = node.name.lower(), node.db.lower()
    if isinstance(node.this, exp.Func):
        node.set("db", None)
        return
    if not schema and name in ctes:
        return
    full = name if schema in ("", "pg_catalog") else f"{schema}.{name}"
    if full in VIEWS and (in_view or schema != OURS):
        view = parse_one(VIEWS[full], read="postgres")
        for inner in list(view.find_all(exp.Table)):
            _place(inner, found, (), in_view=True)
        node.replace(exp.alias_(exp.Subquery(this=view), node.alias or name, table=True))
        return
    if full not in SHAPES or (not schema and not name.startswith("pg_")):
        if schema in _SCHEMAS or name.startswith("pg_"):
            raise Unsupported(f"{schema or 'pg_catalog'}.{name} is not served")
        raise Unsupported(f"{node.sql()}: a query about the catalog reads no tables beside it")
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
    node.set("db", None)
    node.set("this", relation(full).this)
    found[PREFIX + full] = full


def _replaced(tree: exp.Expr, of: VisibleCatalog) -> exp.Expr:
    """From the leaves up, so that what is replaced has replaced parts."""
    for select in tree.find_all(exp.Select):
        select.set("expressions", [_under_its_name(each) for each in select.expressions])
    for node in reversed(list(tree.dfs())):
        made = _expression(node, of)
        if made is node:
            continue
        if node is tree:
            tree = made
        else:
            node.replace(made)
    return tree


def _under_its_name(projection: exp.Expr) -> exp.Expr:
    """A column that is a function's value is called like the function."""
    inner = projection.expression if _is_qualified(projection) else projection
    name = _function(inner)
    return exp.alias_(projection, name, quoted=True) if name in FUNCTIONS else projection


def _is_qualified(node: exp.Expr) -> bool:
    """Whether it is `pg_catalog.` before something."""
    return isinstance(node, exp.Dot) and isinstance(node.this, (exp.Identifier, exp.Column)) and node.this.name in _SCHEMAS


def _expression(node: exp.Expr, of: VisibleCatalog) -> exp.Expr:
    match node:
        case exp.Dot() if _is_qualified(node):
            return cast("exp.Expr", node.expression)
        case exp.Collate():
            return cast("exp.Expr", node.this)
        case exp.Operator():
            return _operator(node)
        case exp.Cast():
            return _cast(node, of)
        case exp.Literal() if node.is_string and node.this in ("{0}", "{}"):
            return exp.Array(expressions=[exp.Literal.number(0)] if node.this == "{0}" else [])
        case exp.Func():
            return _call(node, of)
        case _:
            return node


def _operator(node: exp.Expr) -> exp.Expr:
    """`x OPERATOR(pg_catalog.~) y`."""
    sign = str(node.args["operator"]).rpartition(".")[2].strip()
    made: dict[str, exp.Expr] = {
        "~": exp.RegexpLike(this=node.this, expression=node.expression),
        "=": exp.EQ(this=node.this, expression=node.expression),
        "~~": exp.Like(this=node.this, expression=node.expression),
    }
    if sign not in made:
        raise Unsupported(f"OPERATOR({sign}) is not served")
    return made[sign]


def _function(node: exp.Expr) -> str:
    """The name of a function in lower case."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower().removeprefix("pg_catalog.")
    return _BUILT.get(type(node), node.sql_name().lower() if isinstance(node, exp.Func) else "")


def _call(node: exp.Expr, of: VisibleCatalog) -> exp.Expr:
    name = _function(node)
    made = FUNCTIONS.get(name)
    if made is None:
        if name in _OTHERS or (isinstance(node, exp.Anonymous) and name.startswith(_PREFIXES)):
            raise Unsupported(f"{name}() is not served")
        return node
    known = isinstance(node, exp.Anonymous)
    given = list(node.expressions) if known else [each for each in node.args.values() if isinstance(each, exp.Expr)]
    return made(of, given)


def _type(node: exp.Cast) -> str:
    return node.to.sql("postgres").lower().replace('"', "").removeprefix("pg_catalog.")


def _cast(node: exp.Cast, of: VisibleCatalog) -> exp.Expr:
    to, value = _type(node), node.this
    if to in ("regclass", "regtype"):
        return _named(to, value, node, of)
    if to in _TEXTS:
        return exp.cast(value, "VARCHAR")
    if to in ("oid", "xid"):
        return exp.cast(value, "BIGINT")
    if node.to.args.get("kind") is not None or "pg_catalog." in node.to.sql("postgres"):
        return exp.cast(value, exp.DataType.build(to, dialect="postgres"))
    return node


def _named(to: str, value: exp.Expr, node: exp.Cast, of: VisibleCatalog) -> exp.Expr:
    """A name as its OID, and an OID as its name where text is wanted."""
    if isinstance(value, exp.Literal) and value.is_string and not value.name.isdecimal():
        if to == "regtype":
            return FUNCTIONS["to_regtype"](of, [value])
        number = class_number(of, value.name)
        if number is None:
            raise InvalidArgument(f"there is no relation {value.name!r}")
        return exp.Literal.number(number)
    parent = node.parent
    if isinstance(parent, exp.Cast) and _type(parent) in ("oid", "int8", "bigint"):
        return exp.cast(value, "BIGINT")
    return type_name(value, None) if to == "regtype" else looked_up("pg_class", "relname", oid=exp.cast(value, "BIGINT"))


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
    sql, relations = rewritten(tree_of(single.text), described, values)
    found = state.session.over(sql, {name: described.relation(full) for name, full in relations.items()})
    # The catalog's lists of whole numbers are OIDs: drivers ask for the type of any other list, by a query that has these.
    oids, rows = pa.list_(pa.uint32()), found.table
    fields = [field.with_type(oids) if field.type == pa.list_(pa.int64()) else field for field in rows.schema]
    return replace(found, table=rows.cast(pa.schema(fields)))


def parameter_kinds(single: Single) -> dict[int, Kind]:
    """The types of the parameters of which something is known: drivers give OIDs as lists."""
    casts = tree_of(single.text).find_all(exp.Cast)
    numbers = [each.this.name for each in casts if isinstance(each.this, exp.Parameter) and each.to.this == exp.DType.ARRAY]
    return {int(number): OID.listed for number in numbers if number.isdecimal()}


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
