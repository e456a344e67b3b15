"""Counts the requests to object stores and their bytes, in this process: for the job that they serve, by table.

Counted is what our own client is called for: each page of a listing, and each request of a deletion of many objects. A disk has
none. Not counted, since no one outside sees them: what the client repeats by itself, and what other libraries request, which
are Spark's readers of large scopes and delta-rs. How often delta-rs opened a table is counted as `OPEN`.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Literal, TypeVar

from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import PricesSettings
from lakewarden.base.threads import within
from lakewarden.storage.options import boto_options

Kind = Literal["GET", "HEAD", "LIST", "PUT", "CREATE", "DELETE", "OPEN"]

PAGE = 1000
"""Objects of one answer to a listing, and of one deletion, on every store."""

READS = ("GET", "HEAD")
WRITES = ("PUT", "CREATE", "LIST")
"""Requests as S3 bills them; those that delete are free."""

GB = 1_000_000_000

T = TypeVar("T")
Amounts = dict[str, int]


class Account:
    """What requests were made for one job, by table id; those for several tables together have none. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_table: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, table_id: str, amounts: Mapping[str, int]) -> None:
        with self._lock:
            counts = self._by_table[table_id]
            for kind, amount in amounts.items():  # each request comes by here, and `update` takes three times as long
                counts[kind] += amount

    def by_table(self) -> dict[str, Amounts]:
        with self._lock:
            return {table_id: dict(amounts) for table_id, amounts in self._by_table.items()}

    def total(self) -> Amounts:
        found = Counter[str]()
        for amounts in self.by_table().values():
            found.update(amounts)
        return dict(found)


PROCESS = Account()
"""All requests of this process."""

_ACCOUNTS: ContextVar[tuple[Account, ...]] = ContextVar("accounts", default=())
_TABLE: ContextVar[str] = ContextVar("table", default="")


@contextmanager
def metered() -> Iterator[Account]:
    """Counts what is requested inside the block, by this thread and those that work for it, in an account of its own too."""
    account = Account()
    with within(_ACCOUNTS, (*_ACCOUNTS.get(), account)):
        yield account


def count_for(table_id: str) -> None:
    """From now on, what is requested is for this table: in the steps of one work, each of which has its context for itself
    (`storage.steps`)."""
    _TABLE.set(table_id)


def count(kind: Kind, requests: int = 1, *, bytes_in: int = 0, bytes_out: int = 0, table_id: str = "") -> None:
    """Notes requests that were answered, or whose answer was lost; `table_id`: of the table, if the object tells."""
    amounts = {kind: requests} | ({"bytes_in": bytes_in} if bytes_in else {}) | ({"bytes_out": bytes_out} if bytes_out else {})
    table = _TABLE.get() or table_id
    for account in (PROCESS, *_ACCOUNTS.get()):
        account.add(table, amounts)


def add_all(found: Mapping[str, Mapping[str, int]]) -> None:
    """Notes what another process counted for this one's job."""
    for account in (PROCESS, *_ACCOUNTS.get()):
        for table_id, amounts in found.items():
            account.add(table_id, amounts)


def counting(kind: Kind, size: Callable[[T], int], do: Callable[[], T], *, table_id: str = "") -> T:
    """Does a request and counts it, whatever comes of it, with the bytes of its answer."""
    try:
        answer = do()
    except BaseException:
        count(kind, table_id=table_id)
        raise
    count(kind, bytes_in=size(answer), table_id=table_id)
    return answer


_LISTS = re.compile(r"[?&](list-type|uploads|versions)\b")
_OF_BOTO: Mapping[str, Kind] = {"GET": "GET", "HEAD": "HEAD", "POST": "DELETE", "DELETE": "DELETE"}
"""By what boto3 is used for: its one POST deletes many objects."""


def boto_client(place: Location) -> Any:
    """Returns boto3's client of S3 for the place, with the credentials that are found now. Its requests are counted.

    Raises:
        ImportError: boto3, which is optional, is not installed.
    """
    from botocore.session import Session

    session = Session()  # it keeps the credentials it found
    session.register_component("data_loader", _descriptions())
    client = session.create_client("s3", **boto_options(place, os.environ))
    client.meta.events.register("before-send.s3", _sent)
    return client


@cache
def _descriptions() -> Any:
    """Amazon's descriptions of its services, as files that take a tenth of a second to read: each client needs them."""
    from botocore.session import Session

    return Session().get_component("data_loader")


def _sent(request: Any, **_: object) -> None:
    count("LIST" if _LISTS.search(request.url) else _OF_BOTO[request.method])


def dollars(amounts: Mapping[str, int], prices: PricesSettings) -> float:
    """What these requests and the bytes that they read (`bytes_in`) cost in a bucket; on a disk they cost nothing."""
    reads, writes = (sum(amounts.get(kind, 0) for kind in kinds) for kinds in (READS, WRITES))
    requests = reads * prices.read_requests + writes * prices.write_requests
    return requests / 1000 + amounts.get("bytes_in", 0) / GB * prices.gb_read
