"""PostgreSQL's functions about its catalog, as expressions over the relations that are served."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp, parse_one

from lakewarden.base import VERSION
from lakewarden.errors import Unsupported
from lakewarden.serve.postgres.catalog_relations import CATALOG, CLASSES, OWNER_NAME, VisibleCatalog
from lakewarden.serve.postgres.kinds import KINDS
from lakewarden.serve.postgres.variables import SERVER_VERSION

PREFIX = "served "
"""Before the names of relations in the text for DuckDB, which has relations of the same names."""


Made = Callable[[VisibleCatalog, Sequence[exp.Expr]], exp.Expr]
"""Makes the expression of a call, for what the session sees and the arguments."""


def text(value: str | None) -> exp.Expr:
    return exp.null() if value is None else exp.Literal.string(value)


def number(value: int | None) -> exp.Expr:
    return exp.null() if value is None else exp.Literal.number(value)


def relation(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(PREFIX + name, quoted=True))


def looked_up(name: str, column: str, **where: exp.Expr) -> exp.Expr:
    """The one value of a column where others have these values."""
    table = exp.alias_(relation(name), "found", table=True)
    found = exp.select(exp.column(column, "found")).from_(table)
    for known, value in where.items():
        found = found.where(exp.EQ(this=exp.column(known, "found"), expression=value.copy()))
    return exp.Subquery(this=found)


def type_name(oid: exp.Expr, modifier: exp.Expr | None) -> exp.Expr:
    """`format_type`: PostgreSQL's name of a type by its OID."""
    case = exp.Case(this=oid.copy())
    for kind in KINDS.values():
        case = case.when(exp.Literal.number(kind.oid), text(kind.sql or kind.name))
        if kind.array:
            case = case.when(exp.Literal.number(kind.array), text(f"{kind.sql or kind.name}[]"))
    if modifier is None or isinstance(modifier, exp.Null):
        return case
    whole = "CASE WHEN ({m}) > 4 THEN '(' || ((({m}) - 4) >> 16) || ',' || ((({m}) - 4) & 65535) || ')' ELSE '' END"
    suffix = parse_one(whole.replace("{m}", modifier.sql("duckdb")), read="duckdb")
    return exp.paren(exp.DPipe(this=case, expression=exp.paren(suffix)))


def class_number(of: VisibleCatalog, name: str) -> int | None:
    plain = name.replace('"', "").removeprefix("pg_catalog.")
    return CLASSES.get(plain) or of.number(plain)


def _value(value: exp.Expr) -> Made:
    return lambda *_: value.copy()


_NOTHING = _value(exp.cast(exp.null(), "VARCHAR"))


def _visible(of: VisibleCatalog, given: Sequence[exp.Expr]) -> exp.Expr:
    places = (CATALOG, of.oids.get(f"{of.seen.namespace}/", CATALOG))
    found = exp.select("oid").from_(relation("pg_class")).where(exp.column("relnamespace").isin(*places))
    return exp.In(this=given[0], query=exp.Subquery(this=found))


def _index(_: VisibleCatalog, given: Sequence[exp.Expr]) -> exp.Expr:
    return looked_up("index_columns", "name", oid=given[0], n=given[1] if len(given) > 1 else exp.Literal.number(0))


def _schemas(of: VisibleCatalog, given: Sequence[exp.Expr]) -> exp.Expr:
    mine = [] if of.seen.namespace is None else [of.seen.namespace]
    system = ["pg_catalog"] if given and isinstance(given[0], exp.Boolean) and given[0].this else []
    return exp.cast(exp.Array(expressions=[text(name) for name in (*system, *mine)]), "VARCHAR[]")


def _setting(of: VisibleCatalog, given: Sequence[exp.Expr]) -> exp.Expr:
    name = given[0].name if given and isinstance(given[0], exp.Literal) else ""
    if name == "search_path":
        return text(of.seen.namespace or "")
    if not of.variables.knows(name):
        if len(given) > 1:
            return exp.null()
        raise Unsupported(f"current_setting: there is no parameter {name!r}")
    return text(of.variables.read(name))


def _set(of: VisibleCatalog, given: Sequence[exp.Expr]) -> exp.Expr:
    if len(given) < 2 or not all(isinstance(each, exp.Literal) for each in given[:2]):
        raise Unsupported("set_config takes the name and the value as texts")
    of.variables.write(given[0].name, given[1].name)
    return given[1]


def _number_of_type(_: VisibleCatalog, given: Sequence[exp.Expr]) -> exp.Expr:
    name = given[0].name.lower()
    return number(next((kind.oid for kind in KINDS.values() if name in (kind.name, kind.sql)), None))


def _expanded(_: VisibleCatalog, given: Sequence[exp.Expr]) -> exp.Expr:
    """The elements of a key with their places, which its relation has beside it."""
    keys = given[0]
    if not isinstance(keys, exp.Column) or keys.name != "indkey":
        raise Unsupported("information_schema._pg_expandarray takes pg_index.indkey alone")
    return exp.Explode(this=exp.column("expanded", keys.table or None))


FUNCTIONS: Mapping[str, Made] = {
    "pg_table_is_visible": _visible,
    **dict.fromkeys(
        (
            *("pg_type_is_visible", "pg_function_is_visible", "has_table_privilege", "has_schema_privilege", "pg_has_role"),
            *("has_database_privilege", "has_column_privilege", "has_any_column_privilege", "has_function_privilege"),
        ),
        _value(exp.true()),
    ),
    **dict.fromkeys(("pg_relation_is_publishable", "pg_is_in_recovery", "pg_is_other_temp_schema"), _value(exp.false())),
    **dict.fromkeys(
        (
            *("obj_description", "col_description", "shobj_description", "pg_get_serial_sequence", "pg_get_function_result"),
            *("pg_get_function_arguments", "pg_get_function_identity_arguments", "pg_get_ruledef", "pg_get_triggerdef"),
            *("pg_get_viewdef", "pg_get_statisticsobjdef_columns", "pg_get_partkeydef", "pg_tablespace_location"),
            *("pg_table_size", "pg_relation_size", "pg_total_relation_size", "pg_database_size", "pg_size_pretty"),
            *("inet_server_addr", "inet_client_addr", "pg_advisory_unlock_all", "pg_get_functiondef"),
        ),
        _NOTHING,
    ),
    "pg_get_userbyid": _value(text(OWNER_NAME)),
    "pg_encoding_to_char": _value(text("UTF8")),
    "version": _value(text(f"PostgreSQL {SERVER_VERSION} (Lakewarden {VERSION})")),
    **dict.fromkeys(("current_database", "current_catalog"), lambda of, _: text(of.database)),
    "current_schema": lambda of, _: text(of.seen.namespace),
    "current_schemas": _schemas,
    **dict.fromkeys(("current_user", "session_user", "user", "current_role"), lambda of, _: text(of.seen.principal.user)),
    "current_setting": _setting,
    "set_config": _set,
    "pg_backend_pid": _value(exp.Literal.number(0)),
    "format_type": lambda _, given: type_name(given[0], given[1] if len(given) > 1 else None),
    "pg_get_expr": lambda _, given: given[0],
    "pg_get_indexdef": _index,
    "pg_get_constraintdef": lambda _, given: looked_up("pg_constraint", "definition", oid=given[0]),
    "to_regtype": _number_of_type,
    "to_regclass": lambda of, given: number(class_number(of, given[0].name)),
    "array_upper": lambda _, given: exp.func("len", given[0]),
    "json_build_object": lambda _, given: exp.Anonymous(this="json_object", expressions=list(given)),
    "_pg_expandarray": _expanded,
}
"""By name in lower case. What is not here and begins like one of PostgreSQL's own is refused."""
