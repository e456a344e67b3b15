"""Stores that could not be reached a moment ago: a job over a thousand scopes does not wait for each of them.

A request to a store that is down takes seconds until it is given up. So whoever was not answered keeps the others from trying for
as long as it waited itself: at most half of a job's time is spent on waiting, and a store that is back is noticed soon.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from lakewarden.base.connection import Location
from lakewarden.errors import Unreachable
from lakewarden.storage.location import bucket_uri
from lakewarden.storage.options import address_of

_AT_MOST = 10.0
"""Seconds for which no request is made."""


class _Outage(NamedTuple):
    """When it was noticed, until when no request is made, and why."""

    noticed: float
    until: float
    reason: str


class Outages:
    """By bucket and endpoint. Safe for threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[str, _Outage] = {}
        self._lock = threading.Lock()

    @contextmanager
    def requesting(self, location: Location, what: str) -> Iterator[None]:
        """The block makes a request. `what` begins the message of an error, such as `cannot read <key> in <uri>`.

        Raises:
            Unreachable: it did not answer a moment ago, and no request is made now; or as the block does.
        """
        self._check(location, what)
        began = self._monotonic()
        try:
            yield
        except Unreachable as error:
            self._note(location, began, error.message.removeprefix(f"{what}: "))
            raise
        if self._known:
            self._forget(location)

    def _check(self, location: Location, what: str) -> None:
        outage = self._known.get(_address(location)) if self._known else None
        now = self._monotonic()
        if outage is not None and now < outage.until:
            moments = f"that was {now - outage.noticed:.0f} s ago, and it is tried again in {outage.until - now:.0f} s"
            raise Unreachable(f"{what}: {outage.reason}; {moments}")

    def _note(self, location: Location, began: float, reason: str) -> None:
        now = self._monotonic()
        until = now + min(now - began, _AT_MOST)
        with self._lock:
            address = _address(location)
            if address not in self._known or self._known[address].until < until:
                self._known[address] = _Outage(now, until, reason)

    def _forget(self, location: Location) -> None:
        with self._lock:
            self._known.pop(_address(location), None)


OUTAGES = Outages()
"""Those that this process knows of."""


def _address(location: Location) -> str:
    return address_of(replace(location, uri=bucket_uri(location.uri)), os.environ)
