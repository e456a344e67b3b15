"""Parses history, restore, optimize and vacuum in Delta's syntax; and jobs, exports and subscriptions."""

from __future__ import annotations

from typing import TypedDict

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakewarden.errors import InvalidArgument
from lakewarden.sql.reader import StatementReader
from lakewarden.sql.statements.base import Pairs, Statement
from lakewarden.sql.statements.others import Forbidden, UnsupportedStatement
from lakewarden.sql.statements.rows import LARGEST, Subscribe
from lakewarden.sql.statements.upkeep import ApplyPlan, ExportUserData, KillJob, KillLiveQuery, Optimize, Restore, Vacuum

_PLACE = ("this", "db", "catalog", "alias")
"""The fields of a table in FROM except samples, pivots and joins."""

_DIGITS = 19
_SUBSCRIBE_OPTIONS = ("last_rows", "batch_size", "from", "from_seq_id")


def restore(read: StatementReader) -> Statement:
    """Reads what follows RESTORE."""
    if read.word("DATABASE"):
        read.rest()
        return UnsupportedStatement("RESTORE DATABASE")
    read.word("TABLE")
    table = read.ref()
    read.expect("TO")
    if read.one_of("VERSION", "TIMESTAMP") == "VERSION":
        read.expect("AS", "OF")
        return Restore(table, read.whole("a version"), more=more_options(read), **_manner(read))
    read.expect("AS", "OF")
    return Restore(table, timestamp=read.text("a moment"), more=more_options(read), **_manner(read))


def optimize(read: StatementReader) -> Statement:
    read.word("TABLE")
    table = read.ref()
    where = read.source(read.condition, "a condition") if read.word("WHERE") else None
    columns = tuple(read.listed(read.column)) if read.word("ZORDER", "BY") else ()
    look = read.word("LOOK")
    return Optimize(table, columns, look, where, more_options(read), **_manner(read))


def vacuum(read: StatementReader) -> Statement:
    read.word("TABLE")
    table = read.ref()
    hours: float | None = None
    force = False
    if read.word("RETAIN"):
        hours = read.number("a number of hours")
        read.expect("HOURS")
        force = read.word("FORCE")
    look = read.word("LOOK")
    return Vacuum(table, hours, force, look, more_options(read), **_manner(read))


def more_options(read: StatementReader) -> Pairs:
    """Reads WITH (name = value, …): options of an operation that have no clause of their own."""
    return read.pairs() if read.word("WITH") else ()


class _Manner(TypedDict):
    dry_run: bool
    all_users: bool


def _manner(read: StatementReader) -> _Manner:
    """Reads DRY RUN and FOR ALL USERS, in either order."""
    dry_run = read.word("DRY", "RUN")
    all_users = read.word("FOR", "ALL", "USERS")
    return _Manner(dry_run=dry_run or read.word("DRY", "RUN"), all_users=all_users)


def apply(read: StatementReader) -> Statement:
    """Reads what follows APPLY."""
    read.expect("PLAN")
    return ApplyPlan(read.text("the id of a plan"))


def kill(read: StatementReader) -> Statement:
    if read.one_of("JOB", "LIVE QUERY") == "JOB":
        return KillJob(_job_id(read))
    return KillLiveQuery(_job_id(read))


def _job_id(read: StatementReader) -> str:
    """Reads an id, quoted or bare: letters, digits and dashes up to the end."""
    if read.at_text:
        return read.text("an id")
    found = read.rest()
    if not found:
        raise read.failure("expected an id")
    return found


def export(read: StatementReader) -> Statement:
    if read.word("USER", "DATA"):
        return ExportUserData()
    what = read.one_of("TABLE", "DATABASE")
    read.rest()
    return UnsupportedStatement("EXPORT TABLE") if what == "TABLE" else Forbidden("EXPORT DATABASE")


def import_(read: StatementReader) -> Statement:
    what = read.one_of("TABLE", "DATABASE")
    read.rest()
    return UnsupportedStatement("IMPORT TABLE") if what == "TABLE" else Forbidden("IMPORT DATABASE")


def backup(read: StatementReader) -> Statement:
    read.expect("DATABASE")
    read.rest()
    return UnsupportedStatement("BACKUP DATABASE")


def subscribe(read: StatementReader) -> Statement:
    """Reads what follows SUBSCRIBE: a table with a condition, or a SELECT of some of its columns."""
    read.expect("TO")
    if read.word("SELECT"):
        read._retreat(read._index - 1)
        query = read.query_up_to("OPTIONS")
    else:
        query = exp.select("*").from_(_table(read))
        if read.word("WHERE"):
            query = query.where(read.condition())
    return Subscribe(one_table(query), _options(read))


def _table(read: StatementReader) -> exp.Table:
    ref = read.ref()
    return exp.table_(ref.name, ref.namespace, quoted=True)


def one_table(query: exp.Query) -> exp.Select:
    """Returns the query of a subscription.

    Raises:
        InvalidArgument: the query is more than a selection of one table's rows.
    """
    parts = {name for name, value in query.args.items() if value}
    if "from_" not in parts:
        raise InvalidArgument("a subscription is SELECT columns FROM one table WHERE condition; this one has no table")
    if not isinstance(query, exp.Select) or parts - {"expressions", "from_", "where", "kind"}:
        raise InvalidArgument("a subscription is SELECT columns FROM one table WHERE condition, and nothing else")
    if next(query.find_all(exp.AggFunc, exp.Window, exp.Join, exp.Subquery), None) or len(list(query.find_all(exp.Select))) > 1:
        raise InvalidArgument("a subscription takes no join, subquery or aggregate")
    table = query.args["from_"].this
    plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    if not plain or any(value and name not in _PLACE for name, value in table.args.items()):
        raise InvalidArgument("a subscription reads the rows of a table")
    return query


def _options(read: StatementReader) -> tuple[tuple[str, str], ...]:
    if not read.word("OPTIONS"):
        return ()
    pairs = read.pairs()
    for key, value in pairs:
        if key.lower() not in _SUBSCRIBE_OPTIONS:
            raise InvalidArgument(f"SUBSCRIBE has no option {key}; it has {', '.join(_SUBSCRIBE_OPTIONS)}")
        if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS and int(value) <= LARGEST):
            raise InvalidArgument(f"SUBSCRIBE option {key}: {value[:_DIGITS]!r} is not a whole number of up to 64 bits")
    return pairs


def nothing_more(read: StatementReader) -> None:
    if not read.over and not read.symbol(TokenType.SEMICOLON):
        raise read.failure("expected the end of the statement")
