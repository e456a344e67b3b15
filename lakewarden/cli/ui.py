"""The command `ui`: starts Dagster's web server and daemon for this warehouse, as processes of their own.

Lakewarden does not import Dagster here; it starts the `dagster` of the same environment with the package's code location.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import typer

import lakewarden
from lakewarden.base.clock import random_id
from lakewarden.base.settings import Settings, load_settings
from lakewarden.catalog.state.job import this_node
from lakewarden.catalog.state.processes import Processes
from lakewarden.cli.context import invocation
from lakewarden.cli.dagster_home import (
    SETTINGS,
    DagsterHome,
    HomeServer,
    alone,
    end_session,
    home_name,
    prepare_home,
    running,
    writable,
)
from lakewarden.client import Lakehouse
from lakewarden.errors import Internal, InUse, InvalidArgument, LakewardenError, Unsupported
from lakewarden.spark.java import require_java
from lakewarden.storage.location import canonical

_PACKAGE = Path(lakewarden.__file__).parent / "dagster"
"""What Dagster is given: the workspace, and the settings of a new home."""
_ALONE = "lakewarden.dagster.orchestration.alone"
_OTHER_DAEMON = 3
"""Its exit status when it found one."""
_OWN_STORAGE = "class: PackedSqliteStorage"
"""Of a home's settings whose storage is its own (lakewarden/dagster/dagster.yaml)."""
_EVENT_BATCH = "500"
"""Asset events that Dagster stores at once (lakewarden/dagster/jobs/event_log/batches.py has the reason)."""
_WITHOUT_HEARTBEAT = "86400"
"""Seconds after which Dagster ends a code server that gets no heartbeat; its own are 30, which pass on a busy machine, or while a
laptop sleeps. It starts no other, and each run fails from then on. What a killed `ui` left is ended by the next one.
"""

_ANSWERS_WITHIN = "600"
"""Seconds that the code server has for an answer, such as a sensor's tick. Dagster's own are 60, and what was found by then is
lost: with a million rows of ten thousand users in the log, a busy machine never got to request a flush.
"""

_PAGE = "LAKEWARDEN_FLEET_URL"
"""The variable by which Dagster's health links to the page of the fleet."""

_STARTS_WITHIN = 300.0
"""A first start in a new environment also compiles its modules."""


@dataclass(frozen=True)
class _Address:
    """Where the pages are served."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The URL to open: a browser cannot open the wildcard address."""
        return f"http://{'127.0.0.1' if self.host == '0.0.0.0' else self.host}:{self.port}"


def register(app: typer.Typer) -> None:
    app.command()(ui)


def ui(
    context: typer.Context,
    port: int = typer.Option(3000, min=1, max=65535, help="Port of the pages."),
    host: str = typer.Option("127.0.0.1", help="Address to serve on. Dagster's pages have no password: do not expose them."),
    dagster_home: Path | None = typer.Option(
        None, help="Where Dagster keeps its runs; by default a directory of this warehouse's own under ./.dagster."
    ),
    workspace: Path = typer.Option(
        _PACKAGE / "workspace.yaml",
        exists=True,
        dir_okay=False,
        show_default="the warehouse alone",
        help="Dagster's workspace, with definitions of your own merged with the warehouse's.",
    ),
) -> None:
    """Open Dagster's pages for this warehouse, with sensors and schedules running. Ctrl-C stops it."""
    warehouse = canonical(invocation(context).warehouse)
    _say_if_java_is_missing()
    address = _Address(host, port)
    command = [_dagster(), "dev", "-w", str(workspace), "--host", host, "--port", str(port)]
    place = dagster_home or Path(".dagster") / home_name(warehouse)
    with ExitStack() as held:
        with writable(place):
            home = prepare_home(place, _PACKAGE / SETTINGS)
            former = held.enter_context(home.held())
            home.log.open("ab").close()
        held.enter_context(alone(warehouse, home, address.url))
        _end(former)
        _check_free(address)
        from lakewarden.cli.fleet_server import fleet_served  # a server of HTTP, which no other command needs

        page = held.enter_context(fleet_served(warehouse, host, port + 1, address.url))
        environment = {**_environment(warehouse, home, address), _PAGE: page}
        _check_alone(home, environment)
        session = random_id()
        with writable(place):
            home.record(HomeServer(session, os.getpid(), address.url))
        lake = held.enter_context(Lakehouse.open(warehouse))
        held.enter_context(lake.noted("ui", address.url))
        print(f"Starting Dagster for {warehouse}: ten seconds to a minute. {_deletes(load_settings(os.environ))}", flush=True)
        with running(command, environment, session, home.log) as process:
            _await(process, address, home.log)
            print(f"Dagster is at {address.url}, for {warehouse}. Its log is {home.log}. Ctrl-C stops it.", flush=True)
            print(f"The fleet as one page is at {page}", flush=True)
            for warning in others(lake):  # as late as here, of two that start at once one sees the other's note
                print(warning, file=sys.stderr, flush=True)
            status = _ended(process)
    raise Internal(f"Dagster ended unexpectedly with status {status}: {_last_line(home.log)}; its log is {home.log}")


def others(lake: Lakehouse) -> list[str]:
    """A warning for each `ui` that no lock keeps away, as of another user; one killed elsewhere counts for two minutes."""
    try:
        alive = Processes(lake.warehouse.state).alive(lake.warehouse.clock())
    except LakewardenError as error:
        return [f"Whether another `lakewarden ui` serves this warehouse is not known ({error.code}): {error.message}"]
    return [
        f"Another `lakewarden ui` ({one.node_id}, at {one.doing}) serves this warehouse: two daemons start every run twice"
        for one in alive
        if one.kind == "ui" and one.node_id != this_node()
    ]


def _ended(process: subprocess.Popen[bytes]) -> int:
    """The status that Dagster ends with. It takes its time to stop, so an interrupt is answered at once."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        print("Stopping Dagster: runs that are under way have half a minute to end.", flush=True)
        raise


def _say_if_java_is_missing() -> None:
    """Before anything is made: the pages and flushes of few scopes need no Java."""
    try:
        require_java()
    except Unsupported as missing:
        print(f"{missing.message}. Without it, runs over many scopes or large ones fail.", file=sys.stderr, flush=True)


def _end(former: HomeServer | None) -> None:
    """Ends what a killed `ui` left: its Dagster would go on serving, and start every run a second time."""
    ended = end_session(former.session) if former else 0
    if former and ended:
        print(
            f"A former `ui` (process {former.pid}, at {former.url}) left {ended} processes of Dagster: they are ended.",
            flush=True,
        )


def _deletes(settings: Settings) -> str:
    """What the schedules delete: an owner has to know before the first of them runs."""
    if settings.maintenance.scheduled_deletes:
        return "Schedules delete: vacuum_weekly removes files past the retention."
    return "Schedules delete expired STREAM rows alone: vacuum_weekly only lists, until maintenance.scheduled_deletes is set."


def _dagster() -> str:
    """Raises Unsupported: Dagster is not installed in this environment."""
    found = shutil.which("dagster", path=str(Path(sys.executable).parent))
    if found is None or shutil.which("dagster-webserver", path=str(Path(sys.executable).parent)) is None:
        raise Unsupported("Dagster is not installed in this environment: install lakewarden[dagster]")
    return found


def _environment(warehouse: str, home: DagsterHome, address: _Address) -> dict[str, str]:
    return {
        "DAGSTER_EVENT_BATCH_SIZE": _EVENT_BATCH,
        "DAGSTER_GRPC_PROXY_HEARTBEAT_TTL_SECONDS": _WITHOUT_HEARTBEAT,
        "DAGSTER_GRPC_TIMEOUT_SECONDS": _ANSWERS_WITHIN,
        **os.environ,
        "LAKEWARDEN_WAREHOUSE": warehouse,
        "LAKEWARDEN_DAGSTER_URL": address.url,  # the catalog sensor reloads the code location through it
        "DAGSTER_HOME": str(home.path),
    }


def _check_free(address: _Address) -> None:
    """Raises InvalidArgument: another process serves at this address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            raise InvalidArgument(
                f"cannot serve on {address.host}:{address.port}: {error.strerror}; choose another with --port"
            ) from error


def _check_alone(home: DagsterHome, environment: dict[str, str]) -> None:
    """A storage that several homes may share is searched for another daemon. The SQLite of a home that is held has no other.

    Raises:
        InUse: another daemon works on the same storage.
    """
    settings = (home.path / SETTINGS).read_text()
    if _OWN_STORAGE in settings or not re.search("^storage:", settings, re.MULTILINE):
        return
    done = subprocess.run([sys.executable, "-m", _ALONE], env=environment, capture_output=True, text=True, check=False)
    if done.returncode == _OTHER_DAEMON:
        raise InUse(done.stdout.strip())


def _await(process: subprocess.Popen[bytes], address: _Address, log: Path) -> None:
    """Raises Internal: Dagster did not start."""
    deadline = time.monotonic() + _STARTS_WITHIN
    while not _answers(address):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Internal(f"Dagster did not start: {_last_line(log)}; its log is {log}")
        time.sleep(0.2)


def _answers(address: _Address) -> bool:
    import urllib.request  # imports HTTP and certificates, which other commands do not need

    try:
        with urllib.request.urlopen(f"{address.url}/server_info", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:  # URLError is one
        return False


_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_COLUMNS = 200


def _last_line(log: Path) -> str:
    """What the log ends with, at a bounded length, without what colors it on a terminal."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 16_384, 0))
        text = _ESCAPES.sub("", file.read().decode(errors="replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "its log is empty"
    return last if len(last) <= _COLUMNS else f"{last[: _COLUMNS - 1]}…"
