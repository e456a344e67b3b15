"""Executes UPDATE and DELETE. In the log, each reads, decides, and writes directly after the position that it read. If another
write came in between, it reads and decides again.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lakewarden.sql.context import Context
from lakewarden.sql.handlers.direct import delete_directly, update_directly
from lakewarden.sql.handlers.revision import changed, revision_query
from lakewarden.sql.handlers.target import WriteTarget, node_of, target_of, wanted_by
from lakewarden.sql.queries import select
from lakewarden.sql.relations import SEQ
from lakewarden.sql.results import AffectedRows
from lakewarden.sql.statements.rows import Delete, Update
from lakewarden.tables.intake import Revision


def update(context: Context, statement: Update) -> AffectedRows:
    """Raises:
    Unsupported: the statement sets a column of the key.
    ConstraintViolation, InvalidArgument: a value does not fit, or a column does not exist. Nothing was written.
    """
    target = target_of(context, statement)
    query = revision_query(target, statement.assignments, statement.alias or statement.table.name)
    query = query.where(_condition(statement), copy=False)
    if not target.plan.in_log:
        return update_directly(context, target, query, statement.assignments)

    def decide(live: pa.Table) -> pa.Table:
        return changed(context, target, select.run(context, query, {target.table.name: live}), statement.assignments)

    wanted = wanted_by(context, query, target.table)
    return target.affected(target.client.revise(decide, user=target.user, wanted=wanted))


def delete(context: Context, statement: Delete) -> AffectedRows:
    target = target_of(context, statement)
    alias = statement.alias or statement.table.name
    if target.schema.append_only:
        return _delete_from_stream(context, statement, target, alias)
    key = [exp.column(name, alias, quoted=True) for name in target.schema.primary_key or target.schema.names[:1]]
    query = exp.select(*key, copy=False).from_(node_of(target.table, alias), copy=False).where(_condition(statement), copy=False)
    if not target.plan.in_log:
        return delete_directly(context, target, query)

    def decide(live: pa.Table) -> Revision:
        return Revision(removed=select.run(context, query, {target.table.name: live}).table)

    wanted = wanted_by(context, query, target.table)
    return target.affected(target.client.revise(decide, user=target.user, wanted=wanted))


def _delete_from_stream(context: Context, statement: Delete, target: WriteTarget, alias: str) -> AffectedRows:
    """Rows of a stream are identified by their place in the log: they may have no key, or share one."""
    assert target.user is not None, "a STREAM table has a scope per user"
    place = exp.column(SEQ, alias, quoted=True)
    query = exp.select(place, copy=False).from_(node_of(target.table, alias), copy=False)
    found = select.run(context, query.where(_condition(statement), copy=False))
    seqs = [int(seq) for seq in found.table.column(0).to_numpy()]
    return target.affected(target.client.delete_rows(seqs, user=target.user).rows)


def _condition(statement: Update | Delete) -> exp.Expr:
    return exp.true() if statement.where is None else statement.where.copy()
