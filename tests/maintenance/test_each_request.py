"""Each request of each operation in turn meets a fault of the store, or keys that expire with it; and a fifth of all requests is
answered 503 SlowDown.

What was done is done once, what was not says so, and the plain same again does it. `LAKEWARDEN_EACH_REQUEST` says how many faults
each request meets; `make torture` takes all four, and the suite tries one request of each operation. Counts are logged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random

import pytest

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.catalog.report import Fault
from tests.fixtures.gate import in_the_gate
from tests.fixtures.minio import MinioServer
from tests.fixtures.proxy import Fault as Kind
from tests.fixtures.proxy import Faults, Moment, Plan, Proxy, proxy_of
from tests.maintenance.acts import ACTS, SETTINGS, faults_of, prepare, wrong

pytestmark = [pytest.mark.slow, pytest.mark.minio]

_log = logging.getLogger(__name__)

_EACH = int(os.environ.get("LAKEWARDEN_EACH_REQUEST", "0"))
_SAMPLE = ("write", "flush", "erase")
_LONG = ("flush", "restore", "compact", "erase", "move")
"""Those that keys are tried for which expire in their middle; the suite tries the first two."""
_EVERY_KIND = ("GET", "HEAD", "LIST", "PUT", "CREATE", "DELETE")
_FAULTS: tuple[Kind, ...] = ("error", "lost", "cut", "stale")


@pytest.fixture
def proxy(minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def _tried(proxy: Proxy, name: str, plan: Faults, behind: Callable[[], object] = lambda: None) -> list[str]:
    """Does it under the plan; where it failed, again behind that; and looks."""
    act = ACTS[name]
    with Lakehouse.open(f"s3://lake/{random_id()}", settings=SETTINGS) as lake:
        prepare(lake)
        with proxy.under(plan):
            faults = faults_of(lake, act.work)
        behind()
        said = [f"said {fault}" for fault in faults if not _is_right(fault, plan)]
        if faults:
            said += [f"again: {fault}" for fault in faults_of(lake, act.work)]
        return said + wrong(lake, act, unknown=bool(faults))


def _is_right(fault: Fault, plan: Faults) -> bool:
    """It goes away by itself; or it says that the credentials are the reason, where they have expired."""
    if isinstance(plan, Moment):
        return fault.code == "STORAGE_UNAVAILABLE" and "credentials" in fault.message
    return fault.code in ("STORAGE_UNAVAILABLE", "CONFLICT") and fault.transient


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


@pytest.mark.parametrize("name", in_the_gate(ACTS, *_SAMPLE, "restore", "move"))
def test_each_request_in_turn(proxy: Proxy, name: str) -> None:
    found = {}
    for number in _numbers(proxy, name):
        for further in range(max(_EACH, 1)):
            fault = _FAULTS[(number + further) % len(_FAULTS)]
            found[f"{fault} at {number}"] = _tried(proxy, name, Plan(fault, _EVERY_KIND, at=(number,)))
    _report(name, found)


@pytest.mark.parametrize("name", ACTS if _EACH else in_the_gate(_SAMPLE, "flush"))
def test_a_fifth_of_all_requests_is_told_to_slow_down(proxy: Proxy, name: str) -> None:
    offsets = range(5 if _EACH else 1)
    plans = {f"offset {offset}": Plan("error", _EVERY_KIND, every=5, offset=offset) for offset in offsets}
    _report(name, {key: _tried(proxy, name, plan) for key, plan in plans.items()})


@pytest.mark.parametrize("name", _LONG if _EACH else in_the_gate(_LONG[:2], "flush"))
def test_keys_that_expire_at_each_request_in_turn(
    minio: MinioServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The environment has new ones at once, or when the operation has failed."""

    def give(keys: Mapping[str, str]) -> None:
        for variable, value in keys.items():
            monkeypatch.setenv(variable, value)

    def expire(keys: Mapping[str, str], others: Mapping[str, str], *, at_once: bool) -> None:
        proxy.expired.add(keys["AWS_ACCESS_KEY_ID"])
        if at_once:
            give(others)

    found = {}
    for number in _numbers(proxy, name):
        for at_once in (True, False) if _EACH else (name == "flush",):
            keys, others = minio.session("AWS", "s3:*"), minio.session("AWS", "s3:*")
            give(keys)
            moment = Moment(number, partial(expire, keys, others, at_once=at_once))
            found[f"{number}, new ones {'at once' if at_once else 'later'}"] = _tried(proxy, name, moment, partial(give, others))
    _report(f"{name} with keys that expire", found)
