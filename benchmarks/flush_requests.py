"""The requests of a flush of one scope on a real MinIO, counted by a proxy, and what each is for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import mean

import deltalake
import pyarrow as pa

from benchmarks import data
from benchmarks.page import Table
from lakewarden.lakehouse import Lakehouse
from tests.fixtures.children import exit_status
from tests.fixtures.proxy import Proxy, Request

Flush = list[Request]
"""The requests of one flush to the store."""

_PURPOSES = [
    (r"_delta_log/_last_checkpoint", "where the last checkpoint is, and what is in it"),
    (r"checkpoint.*\.parquet", "the checkpoint: the last one, and the next, which is made from it"),
    (
        r"_delta_log/\d+\.json",
        "commits: a look at the last one, the new one, a look above it; for a checkpoint those since the last",
    ),
    (r"_delta_log/", "which commits there are (delta-rs)"),
    (r"batch-.*\.parquet", "the data file; a merge also reads those it replaces"),
    (r"manifest\.json", "the manifest beside the table, which keeps the version for the next flush"),
    (r"\.lakewarden-", "the storage's marker and floor, once a job"),
    (r"/known/", "the floor in the state, once a job and table"),
    (r"/log/.*/segments", "the scope's rows in the log; headers of new segments, once a job"),
    (r"/log/.*/cuts", "what of the log is settled, once a job and table"),
    (r"/log/", "listing the log, once a job and table; cleaning it"),
    (r"/scopes/", "the registry of flushed users, once a job and table"),
    (r"/catalog/", "the catalog, once a job"),
    (r"/jobs/", "the job's record, once a job"),
    (r"", "deleting what is settled, once a job and table"),
]


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


def of_scope(flush: Flush) -> int:
    """The number of requests of the scope itself."""
    return len(_own_requests(flush))


def cycle_mean(counted: Counted) -> float:
    """The mean of a process's flushes over one cycle, its first one included."""
    steady, alone = (mean(map(of_scope, flushes)) for flushes in (counted.steady, counted.alone))
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
        "a million flushes of a scope, and of a job, at S3's list prices",
    )
    own = [
        (
            name,
            _spread([of_scope(flush) for flush in each.steady]),
            _mean(_in_log, each.steady),
            _spread([of_scope(flush) for flush in each.alone]),
            f"{cycle_mean(each):.1f}",
            _mean(lambda flush: len(flush) - of_scope(flush), each.steady),
            f"{_dollars(map(_own_requests, each.steady)):.1f}, {_dollars(each.steady):.1f} $",
        )
        for name, each in ours.items()
    ]
    alone = [
        (f"delta-rs alone, {name}", _spread([len(flush) for flush in each]), "", "", "", "", "") for name, each in theirs.items()
    ]
    rounds = len(next(iter(ours.values())).steady)
    said = (
        f"Requests of one flush of one scope on MinIO: flushes {rounds + 1} to {2 * rounds} are the steady state, those of one"
        " process, over whole cycles from checkpoint to checkpoint. Then each is made by a process of its own, again over whole"
        " cycles. Those of the scope itself, checkpoints among them; and those that a job makes once, however many scopes it"
        " has. Target: over a cycle with the process's first at most 8 for an append and 9 for a small merge; once a job at"
        " most 14."
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
    found = Counter((request.kind, _purpose(request.key)) for flush in flushes for request in flush)
    rows = [(kind, purpose, f"{count / len(flushes):.1f}") for (kind, purpose), count in sorted(found.items())]
    return Table(f"What they are for ({name}, in the steady state), on average a flush.", ("kind", "what for", "requests"), rows)


def _purpose(key: str) -> str:
    return next(purpose for pattern, purpose in _PURPOSES if re.search(pattern, key))
