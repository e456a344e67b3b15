"""The rights that statements need, and the types of table that they apply to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import Act, Capability, GuardedTable, TableAct, TableOf, WarehouseAct, require
from lakewarden.catalog.names import AccessLevel
from lakewarden.catalog.operations import SPECS, Operation
from lakewarden.catalog.options import check_type
from lakewarden.sql.context import Context
from lakewarden.sql.ref import Ref
from lakewarden.sql.relations import SYSTEM

Made = dict[TableName, TableOf]
"""Tables that a text creates before the current statement."""


@dataclass(frozen=True)
class Ask:
    """The check at the gate before a statement runs: an act, and its table if it has one."""

    act: Act
    table: GuardedTable | None = None


# What a statement's row says of its right. Each has the acts to ask for, of a statement at hand, beside those of the tables that
# its queries read; and what the reference says.
@dataclass(frozen=True)
class Right:
    asks: Callable[[Context, Any, Made], Iterable[Ask]]
    says: str


READS = Right(lambda *_: (), "`read`")
"""No right but that to read what the queries inside read, which `bind` asks for of every statement."""


def in_warehouse(act: WarehouseAct) -> Right:
    """The right to an act that concerns no table."""
    return Right(lambda *_: (Ask(act),), f"`{act}`")


def table_right(act: TableAct) -> Right:
    """The right to an act on the table that the statement names."""
    return Right(lambda context, statement, made: (ask_on(context, statement.table, act, made),), f"`{act}`")


def scopes_right(operation: Operation) -> Right:
    """What an operation needs for every scope; for the session's own, where `SPECS` says so, the right to write."""

    def asks(context: Context, statement: Any, made: Made) -> Iterator[Ask]:
        own = SPECS[operation].own and not statement.all_users
        yield ask_on(context, statement.table, "write" if own else act_of(operation), made)

    return Right(asks, f"`write`; `{act_of(operation)}` a table, `FOR ALL USERS`")


def operation_right(operation: Operation) -> Right:
    """The right of an operation that works on every scope."""
    return table_right(act_of(operation))


def act_of(operation: Operation) -> TableAct:
    act = SPECS[operation].act
    assert act is not None, "an operation with a statement has a right"
    return act


def ask_on(context: Context, ref: Ref, act: TableAct, made: Made) -> Ask:
    """A table that does not exist needs no right, and is not an error yet: an earlier statement may create it."""
    name = context.named(ref)
    return Ask(act, context.guarded(name) or made.get(name) or TableOf(name, "USER"))


def creation_right(*, fills: bool = False) -> Right:
    """Of every form of CREATE TABLE. A source of one's own, and a place, may be any that this process reaches, so each needs the
    right to manage such places.

    Args:
        fills: whether rows are written, too.
    """

    def asks(context: Context, statement: Any, made: Made) -> Iterator[Ask]:
        kind, options = check_type(statement.type), statement.options
        if any(key.upper() == "SOURCE" for key, _ in options) or statement.chooses_place(context):
            yield Ask("manage storages")
        level = next((value.upper() for key, value in options if key.upper() == "ACCESS_LEVEL"), "PRIVATE")
        name = context.named(statement.table)
        table = TableOf(name, kind, _level(level))
        yield Ask("create", TableOf(name, "SYSTEM") if name.namespace == SYSTEM else table)
        if fills:
            yield Ask("write", table)
        made[name] = table

    return Right(asks, "`create` for its type of table")


def _level(text: str) -> AccessLevel:
    """The access level that the options name. CREATE TABLE refuses an invalid one later."""
    levels: Mapping[str, AccessLevel] = {"PUBLIC": "PUBLIC", "RESTRICTED": "RESTRICTED", "DBA": "DBA"}
    return levels.get(text, "PRIVATE")


@dataclass(frozen=True)
class Requirement:
    """What the statement's table must be capable of; `what` names the statement in the error."""

    capability: Capability
    what: str
    holds_for: Callable[[Any], bool] = lambda _: True
    """Whether this statement of the class needs it."""

    def check(self, context: Context, statement: Any, made: Made) -> None:
        """Raises Unsupported: the statement's table is of a type that does not support it."""
        if statement.table is None or not self.holds_for(statement):
            return
        name = context.named(statement.table)
        table = context.guarded(name) or made.get(name)
        if table is not None:
            require(table, self.capability, self.what)


def cold(what: str) -> Requirement:
    return Requirement("cold tier", what)
