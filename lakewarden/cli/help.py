"""The panels of the command line's help, and an example of each command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import typer
from typer.models import CommandInfo

from lakewarden.catalog.operations import SPECS


def _operations(panel: str) -> Mapping[str, str]:
    commands = {operation: spec.command for operation, spec in SPECS.items() if spec.command}
    return {operation: command.example for operation, command in commands.items() if command.panel == panel}


PANELS: Mapping[str, Mapping[str, str]] = {
    "Look": {
        "sql": '"SELECT * FROM chat.messages LIMIT 10" --user u_42',
        "tables": "chat",
        "users": "--table chat.messages",
        "status": "--limit 5",
        "report": "--out fleet.html",
        "survey": "s3://bucket/prefix --out survey.json",
        "metrics": "--out /var/lib/prometheus/node-exporter/lakewarden.prom",
        "history": "chat.messages --user u_42 --limit 5",
        "tags": "chat.messages --user u_42",
        "check": "--quick",
        "plan": "chat.messages --operation restore --user u_42 --version 3",
    },
    "Care": {
        **_operations("Care"),
        "apply": "PL-0123456789ab-01234567",
        "maintain": "--once --dry-run",
        "move": "chat.messages --to archive --dry-run",
    },
    "Restore and erase": {
        **_operations("Restore and erase"),
        "repair": "chat.messages --user u_42 --dry-run",
        "tag": "chat.messages --user u_42 --name before-import",
        "export": "--user u_42 --to ./export-of-u_42",
        "import": "--from ./export-of-u_42 --user u_42",
        "erase": "--user u_42 --dry-run",
        "erasures": "--user u_42",
    },
    "Load": {
        "load": "chat.messages ./messages.csv --user-column author",
        "ingest": "shop.orders 2026/11/orders.csv",
        "relay": "chat.messages --brokers localhost:9092 --follow",
        "consume": "chat.messages messages --brokers localhost:9092",
        "file put": "chat.messages photo ./dog.png --key id=3 --user u_42",
        "file get": "chat.messages photo ./copy.png --key id=3 --user u_42",
        "file delete": "chat.messages photo --key id=3 --user u_42",
        "file list": "chat.messages --user u_42",
    },
    "Serve": {
        "ui": "--port 3001",
        "serve": "--port 8080 --pg-port 5433",
        "token": "--user u_42 --role user --minutes 15",
        "demo": "--aircraft 100",
    },
    "Admin": {
        "storage create": "lake --preset minio --endpoint http://localhost:9000 --bucket lake",
        "storage alter": "lake --endpoint https://minio.example.com",
        "storage adopt": "lake",
        "storage drop": "lake --if-exists",
        "storage list": "--format json",
        "settings": "--format json",
        "settings set": "compaction.ratio 4",
        "jobs list": "--limit 5",
        "jobs run": "--format json",
        "jobs kill": "FL-01a21980fe8b-a3948b3a",
        "upgrade": "--warehouse s3://lake/prod",
    },
}
"""The panels in their order; in each, the commands and what follows the command's name in its example."""


def arrange(app: typer.Typer) -> None:
    """Puts each command into its panel, in the order of these, with its example below its help."""
    panels = {command: (panel, rest) for panel, commands in PANELS.items() for command, rest in commands.items()}
    places = {command.partition(" ")[0]: place for place, command in enumerate(panels)}
    _place(app.registered_commands, panels, "")
    for group in app.registered_groups:
        assert group.typer_instance is not None
        group.rich_help_panel = next(panel for command, (panel, _) in panels.items() if command.startswith(f"{group.name} "))
        _place(group.typer_instance.registered_commands, panels, f"{group.name} ")
        if group.name in panels:
            group.epilog = _example(str(group.name), panels[str(group.name)][1])
    app.registered_commands.sort(key=lambda one: places[_name(one)])


def _place(commands: Iterable[CommandInfo], panels: Mapping[str, tuple[str, str]], group: str) -> None:
    for one in commands:
        panel, rest = panels[group + _name(one)]
        one.rich_help_panel = None if group else panel
        one.epilog = _example(group + _name(one), rest)


def _name(command: CommandInfo) -> str:
    assert command.callback is not None
    return command.name or command.callback.__name__


def _example(command: str, rest: str) -> str:
    return f"Example: lakewarden {command} {rest}"
