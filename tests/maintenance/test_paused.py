"""A process that is stopped in the middle of what it deletes, for longer than its lease, and goes on behind others' work.

It is held at one of the requests with which it changes the store, stopped (SIGSTOP), and continued (SIGCONT) when its lease is
over and others have written, flushed, compacted, and done the same again. Nothing of theirs may go. `LAKEWARDEN_PAUSES=1`, as in
`make torture`, tries each of the requests; the suite tries one of each operation. Counts are logged.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from multiprocessing.process import BaseProcess
from random import Random

import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import CompactionSettings, LockSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import Conflict, NotFound, StorageUnavailable
from tests.fixtures.children import ended, start
from tests.fixtures.gate import in_the_gate
from tests.fixtures.lakes import NOTES, Rows, make_notes, notes, strong
from tests.fixtures.minio import MinioServer
from tests.fixtures.patience import PATIENCE
from tests.fixtures.proxy import Plan, Proxy, proxy_of
from tests.maintenance.acts import ACTS, ALL, faults_of, prepare

pytestmark = [pytest.mark.slow, pytest.mark.minio]

_log = logging.getLogger(__name__)

_EACH = os.environ.get("LAKEWARDEN_PAUSES") == "1"
_CHANGES = ("PUT", "CREATE", "DELETE")
_LEASE = 0.3
_SETTINGS = Settings(
    compaction=CompactionSettings(min_eligible_segments=2), locks=LockSettings(lease_seconds=_LEASE, acquire_seconds=60)
)
_LATE = {9: "late"}
_BACK = {1: "a", 2: "b"}

_RIGHT: Mapping[str, tuple[Rows, ...]] = {
    **dict.fromkeys(("flush", "compact", "vacuum", "erase", "move"), ({**ALL, **_LATE},)),
    "restore": ({**_BACK, **_LATE}, {**ALL, **_LATE}, _BACK),
    "drop": (_LATE,),
}
"""What ann's rows may be at the end. A restore counts before the others' write, behind it, or not at all."""


@pytest.fixture
def proxy(minio: MinioServer) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint) as proxy:
        yield proxy


def _act(uri: str, name: str, endpoint: str) -> None:
    """In a child, through the proxy. Whatever it raises is told by its end."""
    os.environ["AWS_ENDPOINT_URL"] = endpoint
    with Lakehouse.open(uri, settings=_SETTINGS) as lake:
        _do(lake, name)


def _do(lake: Lakehouse, name: str) -> None:
    if name == "drop":
        lake.drop_table(NOTES)
    else:
        faults_of(lake, ACTS[name].work)


def _others(lake: Lakehouse, name: str) -> None:
    """What happens while the process is stopped: each may be refused, and none may be undone."""
    if name != "restore":
        _tried(lake, name)
    table = make_notes(lake)
    table.write(notes(_LATE), user="ann")
    faults_of(lake, lambda lake: lake.flush())
    faults_of(lake, lambda lake: lake.compact(NOTES))


def _tried(lake: Lakehouse, name: str) -> None:
    with suppress(Conflict, NotFound, StorageUnavailable):
        _do(lake, name)


def _stopped(child: BaseProcess, plan: Plan) -> bool:
    """Whether the child came to the request, at which it is held, and is stopped now."""
    until = time.monotonic() + PATIENCE
    while not plan.befallen and child.is_alive() and time.monotonic() < until:
        time.sleep(0.005)
    if not plan.befallen:
        return False
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    return True


def _paused(proxy: Proxy, name: str, number: int) -> list[str] | None:
    """What is wrong at the end; None where the operation has no such request."""
    uri = f"s3://lake/{random_id()}"
    with Lakehouse.open(uri, settings=_SETTINGS) as lake:
        prepare(lake)
        plan = Plan("held", _CHANGES, at=(number,))
        with proxy.under(plan):
            child = start(_act, uri, name, proxy.endpoint)
            stopped = _stopped(child, plan)
            if stopped:
                time.sleep(2 * _LEASE)
                with Lakehouse.open(uri, settings=_SETTINGS) as other:
                    _others(other, name)
                assert child.pid is not None
                os.kill(child.pid, signal.SIGCONT)
        ended(child)
        return _wrong(uri, name) if stopped else None


def _wrong(uri: str, name: str) -> list[str]:
    with Lakehouse.open(uri, settings=_SETTINGS) as lake:
        found = [str(fault) for fault in faults_of(lake, lambda lake: lake.flush())]
        if name == "drop" and NOTES not in {str(table.name) for table in lake.tables()}:
            return found  # the name was looked up behind the others' work: theirs is the table that was dropped
        table = lake.table(NOTES)
        if (there := strong(table, "ann")) not in _RIGHT[name]:
            found.append(f"ann has {there}")
        bob = {} if name in ("erase", "drop") else {1: "bob"}
        if (there := strong(table, "bob")) != bob:
            found.append(f"bob has {there}")
        found += [str(fault) for fault in faults_of(lake, ACTS["vacuum"].work)]
        return found + [f"check: {one}" for one in lake.check() if not one.passed]


@pytest.mark.parametrize("name", in_the_gate(_RIGHT, "flush", "restore", "erase"))
def test_what_goes_on_behind_its_lease_takes_nothing_of_others(proxy: Proxy, name: str) -> None:
    found: dict[int, list[str]] = {}
    numbers = range(1, 1000) if _EACH else [Random(name).randint(1, 4)]
    for number in numbers:
        if (said := _paused(proxy, name, number)) is None:
            break
        found[number] = said
    _log.info("%s: %d pauses, %d wrong", name, len(found), sum(map(bool, found.values())))
    assert found
    assert {number: said for number, said in found.items() if said} == {}
