"""The commands about a warehouse as a whole: `settings`, by which all its processes go, and `upgrade` to the newest format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import typer

from lakewarden.cli.context import Invocation, invocation
from lakewarden.cli.output import Row, cell
from lakewarden.maintenance.admin.settings import WarehouseSetting


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="List and change the settings by which all processes of the warehouse go.")
    group.callback(invoke_without_command=True)(list_settings)
    group.command("set")(set_setting)
    app.add_typer(group, name="settings")
    app.command()(upgrade)


def list_settings(context: typer.Context) -> None:
    """List the settings by which all processes of the warehouse go; `settings set` changes one."""
    if context.invoked_subcommand is None:
        call = invocation(context)
        with call.lake("settings") as lake:
            _emit(call, lake.settings())


def set_setting(
    context: typer.Context,
    key: str = typer.Argument(help="The setting, as compaction.ratio."),
    value: str = typer.Argument(help="Its value; `default` sets it back."),
) -> None:
    """Change a setting for all processes of the warehouse."""
    call = invocation(context)
    with call.lake("settings") as lake:
        changed = lake.alter_warehouse({key: value})
    _emit(call, [one for one in changed if one.key == key.strip().lower()])


def _emit(call: Invocation, found: Sequence[WarehouseSetting]) -> None:
    call.emit([asdict(one) for one in found], empty="", columns=("key", "value", "default", "bounds"))


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
