"""`lakewarden upgrade`: upgrades a warehouse of an earlier release to the newest format."""

from __future__ import annotations

import typer

from lakewarden.cli.context import invocation
from lakewarden.cli.output import Row, cell


def register(app: typer.Typer) -> None:
    app.command()(upgrade)


def upgrade(context: typer.Context) -> None:
    """Give every storage its identity and every table its floor; older releases then refuse the warehouse. Stop their
    processes first."""
    call = invocation(context)
    with call.lake("upgrade") as lake:
        found = lake.upgrade()
    call.emit([_row(cell(one)) for one in found], empty="nothing to upgrade")


def _row(value: object) -> Row:
    assert isinstance(value, dict), "a dataclass becomes an object"
    return value
