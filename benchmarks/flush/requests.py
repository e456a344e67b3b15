"""The requests of a flush of one scope on a real MinIO, counted by a proxy, and what each is for."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean

import deltalake
import pyarrow as pa

from benchmarks import data
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from lakewarden.client import Lakehouse
from tests.fixtures.children import exit_status
from tests.fixtures.minio import MinioServer, serve_minio
from tests.fixtures.proxy import Proxy, Request, proxy_of

Flush = list[Request]
"""The requests of one flush to the store."""

_PURPOSES = [
    (r".* .*_delta_log/_last_checkpoint", "where the last checkpoint is, and what is in it"),
    (r".* .*checkpoint.*\.parquet", "the checkpoint: the last one, and the next, which is made from it"),
    (r"CREATE .*_delta_log/\d+\.json", "the commit"),
    (
        r"GET .*_delta_log/\d+\.json",
        "commits: that the last one is still there, that nothing is above the new one; for a checkpoint those not seen",
    ),
    (r".* .*_delta_log/", "which commits there are (delta-rs)"),
    (r"GET .*batch-.*\.parquet", "the data files that a merge replaces"),
    (r"PUT .*batch-.*\.parquet", "the data file"),
    (r"GET .*manifest\.json", "the scope's version, as it is kept beside the table"),
    (r"PUT .*manifest\.json", "the scope's version, kept for the next flush"),
    (r"GET .*\.lakewarden-owner", "the storage's marker: that the commits went to the storage, and it is the same one"),
    (
        r"LIST .*\.lakewarden-floor",
        "the storage's floor: that the storage is there, and no part of the warehouse older than another",
    ),
    (r"CREATE .*\.lakewarden-floor", "the storage's floor: how far it is settled"),
    (r"CREATE .*/known/", "the floor in the state: the same"),
    (r".* .*/known/", "the floor in the state, which a process reads once"),
    (r"GET .*/log/.*/segments", "the segments of the log: whose rows are in the new ones; and the rows of the scope"),
    (r"GET .*/log/.*/cuts", "the newest cut of the log, which a process that settled before knows"),
    (r"LIST .*/log/.*/cuts", "that the cut on which the view of the log rests is still the newest"),
    (r"CREATE .*/log/.*/cuts", "the next cut: what is settled"),
    (r"LIST .*/log/[^/]+/", "that the new cut counts, and what it leaves to be removed"),
    (r"LIST .*/log/", "which logs have rows"),
    (r"CREATE .*/log/.*/history", "the settled rows, kept for subscribers"),
    (r"GET .*/log/.*/history", "rows kept for subscribers, 32 small objects of which become one"),
    (r".* .*/scopes/", "the registry of scopes, which a process reads before its first flush of a user"),
    (r".* .*/catalog/", "the catalog: what tables there are, and where"),
    (r"CREATE .*/jobs/", "the job's record"),
    (r"DELETE ", "removing what is settled, by one request for each storage"),
    (r"", "opening the warehouse"),
]
"""What requests are for, by kind and key."""


@dataclass(frozen=True)
class Counted:
    """Flushes of one scope, one after the other."""

    first: list[Flush]
    """From a table without a checkpoint on."""
    steady: list[Flush]
    """The next ones, by the same process, over whole cycles from one checkpoint to the next."""
    alone: list[Flush]
    """Those after that, each by a process that begins with it."""


_CYCLE = 10
"""Flushes from one checkpoint to the next."""

_PRICES = {"LIST": 5.0, "PUT": 5.0, "CREATE": 5.0, "GET": 0.4, "HEAD": 0.4, "DELETE": 0.0}
"""S3's list prices of a million requests, in dollars (us-east-1, standard storage)."""


def run(scale: Scale) -> Section:
    """Counts, and no times: the machine may do something else meanwhile."""
    section = Section("requests", scale.name)
    with serve_minio() as server:
        section.tables.extend(_counted_on(server, rounds=20, processes=10))
    return section


def _counted_on(server: MinioServer, *, rounds: int, processes: int) -> list[Table]:
    """Of flushes, ours and those of delta-rs alone; both numbers are whole cycles of checkpoints."""
    with counting(server) as proxy:
        ours = {
            name: counted(proxy, same_keys=same, rounds=rounds, processes=processes)
            for name, same in {"append": False, "small merge": True}.items()
        }
        theirs = {name: delta_rs(proxy, merge=name == "merge", rounds=rounds) for name in ("append", "merge")}
    return tables(ours, theirs)


@contextmanager
def counting(server: MinioServer) -> Iterator[Proxy]:
    """A proxy in front of the server, for everything that takes its store from the environment."""
    with proxy_of(server.endpoint) as proxy, environment(server, proxy.endpoint):
        yield proxy


def of_scope(flush: Flush) -> int:
    """The number of requests of the scope itself."""
    return len(_own_requests(flush))


def of_job(flush: Flush) -> int:
    """The number of the others, which a job makes once, however many scopes it has."""
    return len(flush) - of_scope(flush)


def cycle_mean(counted: Counted, of: Callable[[Flush], int] = of_scope) -> float:
    """The mean of a process's flushes over one cycle, its first one included."""
    steady, alone = (mean(map(of, flushes)) for flushes in (counted.steady, counted.alone))
    return steady + (alone - steady) / _CYCLE


def _own_requests(flush: Flush) -> Flush:
    """Those below the scope's place, and one that reads its rows in the log."""
    own = [request for request in flush if "/data/" in request.key and "/.lakewarden-" not in request.key]
    rows = [request for request in flush if "/segments/" in request.key and request.kind == "GET"]
    return [*own, *rows[:1]]


def tables(ours: Mapping[str, Counted], theirs: Mapping[str, list[Flush]]) -> list[Table]:
    """For the page: ours beside what delta-rs does alone, then what ours are for."""
    head = (
        "what",
        "steady state: mean (least, most)",
        "of these in Delta's log",
        "a process's first: mean (least, most)",
        "a process's first included",
        "once a job",
        "a process's first job included",
        "a million flushes of a scope, and with a job each, at S3's list prices",
    )
    own = [
        (
            name,
            _spread([of_scope(flush) for flush in each.steady]),
            _mean(_in_log, each.steady),
            _spread([of_scope(flush) for flush in each.alone]),
            f"{cycle_mean(each):.1f}",
            _spread([of_job(flush) for flush in each.steady]),
            f"{cycle_mean(each, of_job):.1f}",
            f"{_dollars(map(_own_requests, each.steady)):.1f}, {_dollars(each.steady):.1f} $",
        )
        for name, each in ours.items()
    ]
    alone = [
        (f"delta-rs alone, {name}", _spread([len(flush) for flush in each]), "", "", "", "", "", f"{_dollars(each):.1f} $")
        for name, each in theirs.items()
    ]
    rounds = len(next(iter(ours.values())).steady)
    said = (
        f"Requests of one flush of one scope on MinIO: flushes {rounds + 1} to {2 * rounds} are the steady state, those of one"
        " process, over whole cycles from checkpoint to checkpoint. Then each is made by a process of its own, again over whole"
        " cycles. Those of the scope itself, checkpoints among them; and those that a job makes once, however many scopes it"
        " has. The process that flushes wrote the rows: where another did, its job reads one header more for each segment."
        " A million PUT or LIST cost 5 $, GET or HEAD 0.40 $, DELETE nothing (us-east-1, standard storage). Target: over"
        " a cycle with the process's first at most 6.6 for an append and 7.6 for a small merge; once a job at most 12.5."
    )
    return [Table(said, head, [*own, *alone]), *(_purposes(name, each.steady) for name, each in ours.items())]


def counted(proxy: Proxy, *, same_keys: bool, rounds: int, processes: int) -> Counted:
    """Small flushes that only append, or that bring the same keys again each time."""
    uri = f"s3://lake/counted-{same_keys}"
    found: list[Flush] = []
    with Lakehouse.open(uri) as lake:
        events = data.create(lake)
        for number in range(1 + 2 * rounds + processes):
            events.write(data.rows(["u"], 0 if same_keys else 10 * number, 10), user_column="user")
            proxy.taken()
            if number <= 2 * rounds:
                _flush(lake)
            else:
                assert exit_status(_flush_there, uri) == 0, "the flush in another process failed"
            found.append(proxy.taken())
    _, *counts = found  # that one makes the table
    return Counted(counts[:rounds], counts[rounds : 2 * rounds], counts[2 * rounds :])


def _flush_there(uri: str) -> None:
    with Lakehouse.open(uri) as lake:
        _flush(lake)


def _flush(lake: Lakehouse) -> None:
    (report,) = lake.flush(data.TABLE)
    assert report.outcome == "done", report.reason


def delta_rs(proxy: Proxy, *, merge: bool, rounds: int) -> list[Flush]:
    """The same commits by delta-rs alone, checkpoints as often; those after the first `rounds`."""
    uri = f"s3://lake/alone-{merge}"
    deltalake.write_deltalake(uri, _own(0), configuration={"delta.checkpointInterval": str(_CYCLE)})
    found = []
    for number in range(1, 2 * rounds + 1):
        proxy.taken()
        if merge:
            merger = deltalake.DeltaTable(uri).merge(_own(0), "t.id = s.id", source_alias="s", target_alias="t")
            merger.when_matched_update_all().when_not_matched_insert_all().execute()
        else:
            deltalake.write_deltalake(uri, _own(10 * number), mode="append")
        found.append(proxy.taken())
    return found[rounds:]


def _own(first: int) -> pa.Table:
    return data.rows(["u"], first, 10).drop_columns(["user"])


def _in_log(flush: Flush) -> int:
    return sum("/_delta_log/" in request.key for request in flush)


def _dollars(flushes: Iterable[Flush]) -> float:
    """What a million such flushes cost, on average."""
    return mean(sum(_PRICES[request.kind] for request in flush) for flush in flushes)


def _mean(of: Callable[[Flush], int], flushes: list[Flush]) -> str:
    return f"{mean(map(of, flushes)):.1f}"


def _spread(counts: list[int]) -> str:
    return f"{mean(counts):.1f} ({min(counts)}, {max(counts)})"


def _purposes(name: str, flushes: list[Flush]) -> Table:
    own = Counter(_what_for(request) for flush in flushes for request in _own_requests(flush))
    every = Counter(_what_for(request) for flush in flushes for request in flush)
    listed = [
        (whose, kind, why, count / len(flushes))
        for whose, found in (("scope", own), ("job", every - own))
        for (kind, why), count in found.items()
    ]
    rows = [
        (whose, kind, why, f"{count:.1f}", f"{count * _PRICES[kind]:.2f} $")
        for whose, kind, why, count in sorted(listed, reverse=True)
    ]
    total = f"{sum(count for *_, count in listed):.1f}", f"{_dollars(flushes):.2f} $"
    said = f"What they are for ({name}, in the steady state), on average a flush of one scope; and the price of a million."
    return Table(said, ("of the", "kind", "what for", "requests", "a million"), [*rows, ("", "", "in all", *total)])


def _what_for(request: Request) -> tuple[str, str]:
    line = f"{request.kind} {request.key}"
    return request.kind, next(purpose for pattern, purpose in _PURPOSES if re.match(pattern, line))


@contextmanager
def environment(server: MinioServer, endpoint: str = "") -> Iterator[None]:
    """The server, or what answers at another endpoint for it, as every client finds it."""
    given = server.environment | ({"AWS_ENDPOINT_URL": endpoint} if endpoint else {})
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
