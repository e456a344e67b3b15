"""Dagster's home and its processes: one `ui` at a time holds the directory, and a record in it says who serves it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lakewarden.errors import InUse, InvalidArgument

if TYPE_CHECKING:
    from psutil import Process


SETTINGS = "dagster.yaml"

_LOCK = "ui.lock"
_RECORD = "ui.json"

_SHIPPED_BEFORE = {
    "de744e04f84813ca6f755c8a16555d6946f900cba76514c5d06d15e00c5653f6",
    "a3c1efc24a670382848f99c3716c1bba405db9fd10fd33a4b8cd9992659dcd9c",
    "d2ae141197abfd594d388ce361e5723cfa35a8d328104b56b5915803697be3d1",
    "b458d495db094b1676f99adefb23be5b091eebd5723e2e444f300c708476416c",
    "937cec5e97db9317251068643bb44f36e470c99a8171cf74b988bb9ca74b5f33",
    "8137cc1a88673c397f133624748d294f53b578e77a4d405e02df52fde40b53de",
}
"""SHA-256 of the settings that earlier releases copied: a home with one of them unchanged gets the new ones."""


_MOVED_MODULES = {"lakewarden.dagster.jobs.event_log.packed": "lakewarden.dagster.jobs.event_log.packed_storage"}
"""What settings of earlier releases name, and where it is now."""


class HomeServer(msgspec.Struct, frozen=True):
    """Who serves a home. `session` is in the environment of every process that this `ui` started."""

    session: str
    pid: int
    url: str


@dataclass(frozen=True)
class DagsterHome:
    """A directory that exists."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "ui.log"

    @contextmanager
    def held(self) -> Iterator[HomeServer | None]:
        """Holds the home inside the block, and returns who served it last: a second daemon would run everything twice.

        The lock ends with this process, however that ends.

        Raises:
            InUse: another `ui` serves it now.
        """
        with (self.path / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InUse(self._taken()) from error
            yield self._served()

    def record(self, served: HomeServer) -> None:
        (self.path / _RECORD).write_bytes(msgspec.json.encode(served))

    def _served(self) -> HomeServer | None:
        try:
            return msgspec.json.decode((self.path / _RECORD).read_bytes(), type=HomeServer)
        except (FileNotFoundError, msgspec.DecodeError):  # a first start, or one that was cut off while it wrote this
            return None

    def _taken(self) -> str:
        served = self._served()
        who = f"process {served.pid}, at {served.url}" if served else "another process"
        return (
            f"another `lakewarden ui` ({who}) serves the Dagster home {self.path}: two daemons would start every run twice;"
            " use its pages, stop it, or give another --dagster-home"
        )


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Raises:
    InvalidArgument: the home cannot be written inside the block: the path is not a directory, or the disk is read-only or full.
    """
    try:
        yield
    except OSError as error:
        raise InvalidArgument(
            f"Dagster cannot have its home at {path}: {error.strerror or error}; give a directory that can be written with"
            " --dagster-home"
        ) from error


@contextmanager
def alone(warehouse: str, home: DagsterHome, url: str, locks: Path | None = None) -> Iterator[None]:
    """Holds the warehouse among the `ui`s of this machine inside the block, wherever their homes are.

    Raises:
        InUse: another `ui` serves it now: two daemons would start every run twice.
    """
    one_name = warehouse if "://" in warehouse else os.path.realpath(warehouse)  # a directory may have several, by links
    place = (locks or Path(tempfile.gettempdir())) / f"lakewarden-ui-{os.getuid()}-{home_name(one_name)}.lock"
    with place.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise InUse(
                f"another `lakewarden ui` ({lock.read() or 'which is starting'}) serves the warehouse {warehouse}: two daemons"
                " would start every run twice; use its pages, or stop it"
            ) from error
        lock.truncate(0)
        lock.write(f"process {os.getpid()}, at {url}, with the Dagster home {home.path}")
        lock.flush()
        yield


def prepare_home(path: Path, shipped: Path) -> DagsterHome:
    """Creates the home with a copy of the shipped settings; keeps settings that a user changed there."""
    path = path.absolute()
    path.mkdir(parents=True, exist_ok=True)
    settings = path / SETTINGS
    if not settings.exists() or hashlib.sha256(settings.read_bytes()).hexdigest() in _SHIPPED_BEFORE:
        shutil.copyfile(shipped, settings)
    elif (kept := settings.read_text()) != (current := with_moved_modules(kept)):
        settings.write_text(current)
    return DagsterHome(path)


def with_moved_modules(settings: str) -> str:
    """The settings with today's names of our modules: Dagster starts with none that it cannot import."""
    for before, now in _MOVED_MODULES.items():
        settings = re.sub(rf"(\bmodule:\s*[\"']?){re.escape(before)}(?![\w.])", rf"\g<1>{now}", settings)
    return settings


def home_name(warehouse: str) -> str:
    """A directory name for the warehouse: its last part, and a hash that makes it unique."""
    return f"{warehouse.rstrip('/').rpartition('/')[2]}-{hashlib.sha256(warehouse.encode()).hexdigest()[:8]}"


# Dagster's processes: started in a session of their own, found again by their environment, and stopped, all of them.
SESSION = "LAKEWARDEN_UI_SESSION"
"""Names the `ui` that started a process. Its children inherit it, so it also finds them after a `kill -9` of their parents,
and it tells the launcher that a run of an earlier session has lost its process (lakewarden/dagster/orchestration/launcher.py)."""

_STOPS_WITHIN = 30.0
_LEFT_STOPS_WITHIN = 10.0


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], session: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Starts Dagster in its own session: Ctrl-C reaches only this process, which passes it on once."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts like Ctrl-C
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env={**environment, SESSION: session}, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        _stop(process, session)


def _stop(process: subprocess.Popen[bytes], session: str) -> None:
    """Stops Dagster's processes, and kills those that are left after a while."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOPS_WITHIN)
    with suppress(ProcessLookupError):  # all of them have ended, as intended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    end_session(session)  # runs have sessions of their own where a JVM or a debugger makes one


def end_session(session: str) -> int:
    """Ends every process that a `ui` started, and returns how many there were."""
    import psutil  # only this command needs it

    left = list(_of_session(session))
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(left, timeout=_LEFT_STOPS_WITHIN)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left)
    return len(left)


def _of_session(session: str) -> Iterator[Process]:
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            if process.environ().get(SESSION) == session:
                yield process
