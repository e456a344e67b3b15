"""The process of a test that makes one change of a table, and asks before each change of the store that it makes.

So whatever other processes are to do there has been done when it goes on; or it is killed there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Lock

import pytest

from lakewarden import Lakehouse
from lakewarden.base.faults import no_faults
from tests.fixtures.children import CONTEXT, start
from tests.ingest.kills import before_changes
from tests.tables.direct.crossings import KEYED, KEYLESS

_CHANGES = {change.name: change for change in (*KEYED, *KEYLESS)}
_GO_ON = ""


@dataclass
class Actor:
    """A process that makes changes, one after the other, until it is killed."""

    _process: BaseProcess | None = field(default=None, init=False)
    _pipe: Connection | None = field(default=None, init=False)

    def run(self, uri: str, table: str, change: str, before: Callable[[int], bool]) -> bool:
        """Whether it lived to the end. `before` is called with the number of each change of the store; what it returns False for
        is not made, and the process is killed.

        Raises:
            AssertionError: the change failed.
        """
        pipe = self._started()
        pipe.send((uri, table, change))
        number = 0
        while (said := pipe.recv()) == _GO_ON:
            if not before(number):
                self.kill()
                return False
            number += 1
            pipe.send(_GO_ON)
        assert said == "done", said
        return True

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._pipe = None

    def _started(self) -> Connection:
        if self._pipe is None:
            self._pipe, theirs = CONTEXT.Pipe()
            self._process = start(_act, theirs)
            theirs.close()
        return self._pipe


def _act(pipe: Connection) -> None:
    turn = Lock()  # of threads of one change

    def ask() -> None:
        with turn:
            pipe.send(_GO_ON)
            pipe.recv()

    while True:
        uri, name, change = pipe.recv()
        with pytest.MonkeyPatch.context() as patch, Lakehouse.open(uri) as lake:
            before_changes(patch, ask)
            try:
                _CHANGES[change].run(lake, lake.table(name), no_faults)
            except Exception as error:  # noqa: BLE001  # it is the parent that fails
                pipe.send(f"{type(error).__name__}: {error}")
                continue
        pipe.send("done")
