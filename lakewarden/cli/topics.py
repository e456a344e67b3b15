"""The commands `relay` and `consume`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import typer

from lakewarden.base.clock import wait
from lakewarden.cli.context import Invocation, invocation
from lakewarden.cli.output import Row, cell, until_stopped
from lakewarden.cli.transfer import RESUME, resume_of
from lakewarden.errors import InvalidArgument, Transient

if TYPE_CHECKING:
    from lakewarden.client.topics import Topics
    from lakewarden.ingest.consume import Consumer
    from lakewarden.ingest.record_formats import ValueFormat
    from lakewarden.ingest.relay import Relay
    from lakewarden.ingest.relays import BackgroundRelays, RelayOutcome
    from lakewarden.ingest.topic_report import ConsumeReport, RelayReport


Mode = Literal["auto", "upsert", "all"]


T = TypeVar("T")
R = TypeVar("R", "ConsumeReport", "RelayReport")


_BROKERS = typer.Option(..., "--brokers", help="Kafka's brokers, as host:port,…", envvar="LAKEWARDEN_KAFKA_BROKERS")
_CLIENT = typer.Option([], "--client", help="A further setting of Kafka's client, as name=value; may be repeated.")
_FOLLOW = typer.Option(False, help="Go on until Ctrl-C or SIGTERM, through errors that may go away.")
_BETWEEN_LOOKS = 1.0
"""Seconds that `--follow` waits."""


def register(app: typer.Typer) -> None:
    app.command()(relay)
    app.command()(consume)


def relay(
    context: typer.Context,
    table: str | None = typer.Argument(None, help="The table, as namespace.table; by default all with log.system kafka."),
    topic: str | None = typer.Option(None, help="The topic; by default named after the table. Created if it does not exist."),
    brokers: str | None = typer.Option(None, help="Kafka's brokers, as host:port,…", envvar="LAKEWARDEN_KAFKA_BROKERS"),
    mode: str = typer.Option("auto", help="upsert: the row after a change; all: the row before, too."),
    start: str | None = typer.Option(
        None,
        "--from",
        help="Where a new topic begins: full, latest, timestamp:… or seq:…; by default that of a table with log.system kafka at "
        "the table's creation, and any other full.",
    ),
    restart: bool = typer.Option(False, help="Begin there again, although the topic carries the table."),
    client: list[str] = _CLIENT,
    follow: bool = _FOLLOW,
    status: bool = typer.Option(False, help="Only show how far the topic follows the table."),
) -> None:
    """Carry the changes of a table to a topic of Kafka, each once for readers of what is committed."""
    call, settings = invocation(context), settings_of(client)
    if table is None and (topic is not None or restart or settings or mode != "auto" or start is not None):
        raise InvalidArgument("name the table: --topic, --mode, --from, --restart and --client are of one table's relay")
    with call.lake("relay") as lake:
        if table is None:
            _relay_every(call, lake.topics, follow=follow, status=status)
            return
        if status:
            _show_relay(call, lake.topics.relay_status(table, topic, brokers=brokers, client=settings))
            return

        def opened(*, restart: bool) -> AbstractContextManager[Relay]:
            chosen = cast("Mode", mode)
            return lake.topics.relaying(table, topic, brokers=brokers, mode=chosen, start=start, restart=restart, client=settings)

        if follow and topic is None and brokers is None:  # its own topic, which others may publish, too
            with opened(restart=restart) as one:
                _show_relay(call, one.look())
            _follow_in_background(call, lake.topics.relaying_in_background(table, mode=cast("Mode", mode), client=settings))
            return
        if follow:
            _follow(lambda first: opened(restart=restart and first), lambda one, _: one.look(), partial(_show_relay, call))
            return
        with opened(restart=restart) as one:
            _show_relay(call, one.look())


def _relay_every(call: Invocation, topics: Topics, *, follow: bool, status: bool) -> None:
    """Raises LakewardenError: the first that a table's relay raised, behind the reports of all; further ones are printed."""
    if not follow:
        outcomes = topics.relay_status_of_every() if status else topics.relay_every()
        _show_relays(call, [each.report for each in outcomes if each.report is not None])
        errors = [each for each in outcomes if each.error is not None]
        _show_errors(errors[1:])
        if errors and errors[0].error is not None:
            raise errors[0].error
        return
    _follow_in_background(call, topics.relaying_in_background())


def _follow_in_background(call: Invocation, opened: AbstractContextManager[BackgroundRelays]) -> None:
    """Goes on beside other processes that relay the same tables."""
    with until_stopped(), opened as relays:
        while True:
            outcomes = relays.look()
            if made := [each.report for each in outcomes if each.report is not None]:
                _show_relays(call, made)
            _show_errors(outcomes)
            wait(relays.pause())


def _show_errors(outcomes: Sequence[RelayOutcome]) -> None:
    for each in outcomes:
        if each.error is not None:
            typer.echo(f"{each.table}: {each.error.code}: {each.error.message}", err=True)


def _follow(opened: Callable[[bool], AbstractContextManager[T]], look: Callable[[T, bool], R], show: Callable[[R], None]) -> None:
    """Goes on through what may go away by opening it again: it continues where the topic is.

    `opened` and `look` get whether nothing was looked at yet.
    """
    first = True
    with until_stopped():
        while True:
            try:
                with opened(first) as one:
                    while True:
                        made, first = look(one, first), False
                        if made.messages:
                            show(made)
                        wait(_BETWEEN_LOOKS)
            except Transient as error:
                typer.echo(f"{error.code}: {error.message}", err=True)
                wait(_BETWEEN_LOOKS)


def _show_relay(call: Invocation, made: RelayReport) -> None:
    _show_relays(call, [made])


def _show_relays(call: Invocation, made: Sequence[RelayReport]) -> None:
    rows = [cast("Row", cell(each)) for each in made]
    call.emit(rows, empty="no table has log.system kafka", columns=("table", "topic", "messages", "seq", "lag", "at"))


def consume(  # noqa: PLR0913, PLR0917  # each is an option of the command
    context: typer.Context,
    table: str = typer.Argument(help="The table, as namespace.table."),
    topic: str = typer.Argument(help="The topic."),
    brokers: str = _BROKERS,
    value_format: str = typer.Option("debezium-json", help="The format of the values: debezium-json, or json."),
    user: str | None = typer.Option(None, help="Whose rows they are (USER and STREAM tables)."),
    user_column: str | None = typer.Option(
        None, help="Instead of --user, the field that names each row's user; _user by default."
    ),
    skip_lost: bool = typer.Option(False, help="Go on although messages expired before they were taken."),
    resume: str | None = RESUME,
    client: list[str] = _CLIENT,
    follow: bool = _FOLLOW,
) -> None:
    """Take the messages of a topic of Kafka into a table, each once. What does not fit goes to TABLE_rejects."""
    call, settings, how = invocation(context), settings_of(client), resume_of(resume)
    with call.lake("consume") as lake:

        def opened() -> AbstractContextManager[Consumer]:
            return lake.topics.consuming(
                table,
                topic,
                brokers=brokers,
                format=cast("ValueFormat", value_format),
                user=user,
                user_column=user_column,
                skip_lost=skip_lost,
                client=settings,
            )

        if follow:  # after another repair it stops again
            _follow(lambda _: opened(), lambda one, first: one.look(how if first else None), partial(_show, call))
            return
        with opened() as consumer:
            _show(call, consumer.look(how))


def settings_of(client: Sequence[str]) -> dict[str, str]:
    """Raises InvalidArgument: one is not name=value."""
    for each in client:
        if "=" not in each:
            raise InvalidArgument(f"--client takes name=value, such as security.protocol=SSL, not {each!r}")
    return dict(cast("tuple[str, str]", tuple(each.split("=", 1))) for each in client)


def _show(call: Invocation, made: ConsumeReport) -> None:
    totals: Row = {name: getattr(made, name) for name in ("messages", "written", "removed", "rejected", "lag")}
    row = {**cast("Row", cell(made)), **totals}
    call.emit([row], empty="no messages", columns=("table", "topic", "messages", "written", "removed", "rejected", "lag"))
