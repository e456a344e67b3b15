"""Each request of each operation in turn meets a fault of the store, and a fifth of all requests is answered 503 SlowDown.

What was done is done once, what was not says so, and the plain same again does it. `LAKEWARDEN_EACH_REQUEST` says how many faults
each request meets; `make torture` takes all four, and the suite tries one request of each operation. Counts are logged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from random import Random

import pytest

from lakewarden import Lakehouse
from lakewarden.clock import random_id
from tests.fixtures.minio import MinioServer
from tests.fixtures.proxy import Fault, Plan, Proxy, proxy_of
from tests.operations.acts import ACTS, SETTINGS, faults_of, prepare, wrong

pytestmark = [pytest.mark.slow, pytest.mark.minio]

_log = logging.getLogger(__name__)

_EACH = int(os.environ.get("LAKEWARDEN_EACH_REQUEST", "0"))
_SAMPLE = ("write", "flush", "erase")
_EVERY_KIND = ("GET", "HEAD", "LIST", "PUT", "CREATE", "DELETE")
_FAULTS: tuple[Fault, ...] = ("error", "lost", "cut", "stale")


@pytest.fixture
def proxy(minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def _tried(proxy: Proxy, name: str, plan: Plan) -> list[str]:
    """Does it under the plan, again until it is done, and looks."""
    act = ACTS[name]
    with Lakehouse.open(f"s3://lake/{random_id()}", settings=SETTINGS) as lake:
        prepare(lake)
        with proxy.under(plan):
            faults = faults_of(lake, act.work)
        in_vain = (fault for fault in faults if fault.code not in ("STORAGE_UNAVAILABLE", "CONFLICT") or not fault.transient)
        said = [f"said {fault}" for fault in in_vain]
        if faults:
            said += [f"again: {fault}" for fault in faults_of(lake, act.work)]
        return said + wrong(lake, act, unknown=bool(faults))


def _numbers(proxy: Proxy, name: str) -> list[int]:
    """Which requests of the operation meet a fault: each of them, or one of the first."""
    if not _EACH:
        return [Random(name).randint(1, 12)]
    counted = Plan("slow", _EVERY_KIND)
    assert _tried(proxy, name, counted) == []
    return [*range(1, counted.seen + 1)]


def _report(name: str, found: dict[str, list[str]]) -> None:
    _log.info("%s: %d tries, %d wrong", name, len(found), sum(map(bool, found.values())))
    assert {key: said for key, said in found.items() if said} == {}


@pytest.mark.parametrize("name", ACTS)
def test_each_request_in_turn(proxy: Proxy, name: str) -> None:
    found = {}
    for number in _numbers(proxy, name):
        for further in range(max(_EACH, 1)):
            fault = _FAULTS[(number + further) % len(_FAULTS)]
            found[f"{fault} at {number}"] = _tried(proxy, name, Plan(fault, _EVERY_KIND, at=(number,)))
    _report(name, found)


@pytest.mark.parametrize("name", ACTS if _EACH else _SAMPLE)
def test_a_fifth_of_all_requests_is_told_to_slow_down(proxy: Proxy, name: str) -> None:
    offsets = range(5 if _EACH else 1)
    plans = {f"offset {offset}": Plan("error", _EVERY_KIND, every=5, offset=offset) for offset in offsets}
    _report(name, {key: _tried(proxy, name, plan) for key, plan in plans.items()})
