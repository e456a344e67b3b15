"""The processes of one server: a request to cancel reaches any of them, and each hands on the key of one that is not its own."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

Key = tuple[int, int]
"""The numbers by which a connection is cancelled: a secret of 62 bits."""

_KEY = struct.Struct("!ii")


class Peers:
    """Each process has a socket in a directory that only the server's user may enter. A key that is lost on the way is a request
    to cancel that came too late, which a client has to expect anyway.
    """

    def __init__(self, place: Path, process: int) -> None:
        self._place = place
        self._own = str(process)

    @contextmanager
    def heard(self, cancel: Callable[[Key], object]) -> Iterator[None]:
        """Hands each key that another process sends to `cancel`, on the running event loop."""
        path, loop = self._place / self._own, asyncio.get_running_loop()

        def receive() -> None:
            with suppress(BlockingIOError):
                found = own.recv(_KEY.size + 1)
                if len(found) == _KEY.size:
                    first, second = _KEY.unpack(found)
                    cancel((first, second))

        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)) as own:
            path.unlink(missing_ok=True)  # of a process that was killed, and had the same number
            own.bind(str(path))
            loop.add_reader(own, receive)
            try:
                yield
            finally:
                loop.remove_reader(own)
                path.unlink(missing_ok=True)

    def send(self, key: Key) -> None:
        """Sends the key to every other process."""
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)) as sending:
            for path in self._place.iterdir():
                if path.name == self._own:
                    continue
                try:
                    sending.sendto(_KEY.pack(*key), str(path))
                except ConnectionRefusedError:
                    path.unlink(missing_ok=True)  # its process was killed
                except (BlockingIOError, FileNotFoundError):
                    pass  # it has too many to read, or has ended
