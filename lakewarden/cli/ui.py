"""The command `ui`: starts Dagster's web server and daemon for this warehouse, as processes of their own.

Lakewarden does not import Dagster; it starts the `dagster` of the same environment with the checkout's code location.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import typer

import lakewarden
from lakewarden.cli.context import invocation
from lakewarden.errors import Internal, InvalidArgument, Unsupported
from lakewarden.storage.location import canonical

_WORKSPACE = "workspace.yaml"
_SETTINGS = "dagster.yaml"
_EVENT_BATCH = "500"
"""Asset events that Dagster stores at once (jobs/batches.py has the reason)."""

_STARTS_WITHIN = 120.0
_STOPS_WITHIN = 30.0


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
) -> None:
    """Open Dagster's pages for this warehouse, with sensors and schedules running. Ctrl-C stops it."""
    warehouse = canonical(invocation(context).warehouse)
    address = _Address(host, port)
    _check_free(address)
    checkout = _checkout()
    home = _prepare(dagster_home or Path(".dagster") / _name(warehouse), checkout)
    command = [_dagster(), "dev", "-w", str(checkout / _WORKSPACE), "--host", host, "--port", str(port)]
    log = home / "ui.log"
    with _running(command, _environment(warehouse, home, address), log) as process:
        _await(process, address, log)
        print(f"Dagster is at {address.url}, for {warehouse}. Its log is {log}. Ctrl-C stops it.", flush=True)
        status = process.wait()
    raise Internal(f"Dagster ended unexpectedly with status {status}; the end of its log: {_tail(log)}")


def _checkout() -> Path:
    """The directory with the code location: this package's checkout, or the current directory.

    Raises:
        Unsupported: only the library is installed.
    """
    for root in (Path(lakewarden.__file__).parent.parent, Path.cwd()):
        if (root / _WORKSPACE).is_file() and (root / "orchestration" / "definitions.py").is_file():
            return root
    raise Unsupported(
        f"there is no {_WORKSPACE} with orchestration/ beside it, neither around the installed package nor in {Path.cwd()}:"
        " the wheel has only the library; run this command in a checkout of Lakewarden"
    )


def _dagster() -> str:
    """Raises:
    Unsupported: Dagster is not installed in this environment.
    """
    found = shutil.which("dagster", path=str(Path(sys.executable).parent))
    if found is None or shutil.which("dagster-webserver", path=str(Path(sys.executable).parent)) is None:
        raise Unsupported("Dagster is not installed in this environment: install lakewarden[dagster]")
    return found


def _name(warehouse: str) -> str:
    """A directory name for the warehouse: its last part, and a hash that makes it unique."""
    return f"{warehouse.rstrip('/').rpartition('/')[2]}-{hashlib.sha256(warehouse.encode()).hexdigest()[:8]}"


def _prepare(home: Path, checkout: Path) -> Path:
    """Creates Dagster's home; keeps settings that a user changed there."""
    home = home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    if not (home / _SETTINGS).exists() and (checkout / _SETTINGS).exists():
        shutil.copyfile(checkout / _SETTINGS, home / _SETTINGS)
    return home


def _environment(warehouse: str, home: Path, address: _Address) -> dict[str, str]:
    return {
        "DAGSTER_EVENT_BATCH_SIZE": _EVENT_BATCH,
        **os.environ,
        "LAKEWARDEN_WAREHOUSE": warehouse,
        "LAKEWARDEN_DAGSTER_URL": address.url,  # the catalog sensor reloads the code location through it
        "DAGSTER_HOME": str(home),
    }


def _check_free(address: _Address) -> None:
    """Raises:
    InvalidArgument: another process serves at this address.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            raise InvalidArgument(
                f"cannot serve on {address.host}:{address.port}: {error.strerror}; choose another with --port"
            ) from error


@contextmanager
def _running(command: list[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Starts Dagster in its own session: Ctrl-C reaches only this process, which passes it on once."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts like Ctrl-C
    with log.open("ab") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stops Dagster's processes, and kills those that are left after a while."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOPS_WITHIN)
    with suppress(ProcessLookupError):  # all of them have ended, as intended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _await(process: subprocess.Popen[bytes], address: _Address, log: Path) -> None:
    """Raises:
    Internal: Dagster did not start.
    """
    deadline = time.monotonic() + _STARTS_WITHIN
    while not _answers(address):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Internal(f"Dagster did not start; the end of its log ({log}): {_tail(log)}")
        time.sleep(0.2)


def _answers(address: _Address) -> bool:
    import urllib.request  # imports HTTP and certificates, which other commands do not need

    try:
        with urllib.request.urlopen(f"{address.url}/server_info", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:  # URLError is one
        return False


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-1_500:]
