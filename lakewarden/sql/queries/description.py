"""The columns of a query's answer, without its rows: DuckDB is given relations that are empty."""

from __future__ import annotations

import pyarrow as pa

from lakewarden.sql.context import Context
from lakewarden.sql.queries.look_ups import bound_look_up
from lakewarden.sql.queries.pushdown import Pushdown
from lakewarden.sql.queries.scan import for_duck
from lakewarden.sql.queries.select import PreparedQuery, checked, prepare
from lakewarden.sql.relations import SYSTEM, Relation
from lakewarden.sql.results import ResultRows, names_apart
from lakewarden.sql.statements.rows import Query
from lakewarden.sql.system_relations import relation_named


def described(context: Context, statement: Query) -> ResultRows:
    """Raises as `select.run`."""
    if (look_up := bound_look_up(context, statement.look_up)) is not None:
        return look_up.described()
    with checked(context):
        prepared = prepare(context, statement.query)
        relations = {str(each): _empty(context, prepared, each, pushdown) for each, pushdown in prepared.pushdowns.items()}
        found = context.engine.run(f"FROM ({prepared.sql}) LIMIT 0", relations, context.limits)
    return ResultRows(found.rows.rename_columns(names_apart(found.rows.column_names)), found.types)


def _empty(context: Context, prepared: PreparedQuery, relation: Relation, pushdown: Pushdown) -> pa.Table:
    if relation.table.namespace == SYSTEM:
        return pa.schema(list(relation_named(relation.table.name).columns.items())).empty_table()
    held, past = context.temporary_table(relation.table), prepared.past.get(relation)
    if past is not None:
        schema = past.schema
    else:
        schema = (held.table if held is not None else context.catalog.tables[relation.table]).schema
    known = {column.name: column.type.arrow for column in schema.columns}
    fields = [pa.field(name, known.get(name, pa.int64())) for name in pushdown.columns]
    return for_duck(pa.schema(fields).empty_table(), schema)
