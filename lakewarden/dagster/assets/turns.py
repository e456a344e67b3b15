"""Whose turn it is to be checked in a table: the scopes that failed before, then those that were checked longest ago."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakewarden.base.scope import Scope
from lakewarden.catalog.model import Table
from lakewarden.catalog.state.rounds import next_of_round, note_round
from lakewarden.client import Lakehouse


@dataclass(frozen=True)
class CheckTurn:
    """The scopes that a run checks, of `total` in the table."""

    scopes: Sequence[Scope]
    total: int
    table_id: str = ""
    last: str = ""
    """The keyed hash up to which the round has come with them; empty if they were named."""

    def note(self, lake: Lakehouse) -> None:
        """Lets the next run go on behind these scopes."""
        if self.last:
            note_round(lake.warehouse.state, self.table_id, self.last)


def next_turn(lake: Lakehouse, table: Table, users: Sequence[str], most: int, lap: str = "") -> CheckTurn:
    """The scopes of these users; without any, at most so many whose turn it is."""
    if table.type == "SHARED":
        return CheckTurn([Scope(table.name)], 1)
    warehouse = lake.warehouse
    registered = {warehouse.erasures.mark(user): user for user in warehouse.registry.users(table.id)}
    if users:
        there = set(registered.values())
        return CheckTurn([Scope(table.name, user) for user in users if user in there], len(registered))
    failed = failing(lake, table, registered, most // 2 + 1)  # the others have their turn, too
    others = registered.keys() - set(failed)
    due = next_of_round(warehouse.state, table.id + lap, others, most - len(failed))
    scopes = [Scope(table.name, registered[mark]) for mark in (*failed, *due)]
    return CheckTurn(scopes, len(registered), table.id + lap, due[-1] if due else "")


def failing(lake: Lakehouse, table: Table, registered: Collection[str], most: int) -> list[str]:
    """The keyed hashes of at most so many of these scopes, whose failure of a check stands."""
    return [mark for mark in lake.warehouse.failed_checks.of(table.id) if mark in registered][:most]
