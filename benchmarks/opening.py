"""Measures what opening a table costs: by the replay of its log, and by delta-rs, over a cycle of ten commits in a bucket."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.flush.requests import environment
from benchmarks.measuring.page import Section, Table
from benchmarks.measuring.scale import Scale
from lakewarden.base.connection import Location
from lakewarden.delta.replay.log_state import replay
from lakewarden.delta.table_contents import TableContents
from lakewarden.storage.options import delta_options
from tests.fixtures.minio import serve_minio
from tests.fixtures.proxy import proxy_of

_CYCLE = 10
"""Commits from one checkpoint to the next."""


def run(scale: Scale, place: Path) -> Section:
    del place  # it is all in a bucket
    section = Section("opening", scale.name)
    costs = dict.fromkeys(_WAYS, (0.0, 0))
    with serve_minio() as server, environment(server), proxy_of(server.endpoint) as proxy:
        location = Location(f"{server.prefix_for('opening')}/t")
        for _ in _versions(location):
            for name, way in _WAYS.items():
                spent, requests = costs[name]
                spent += _milliseconds(way, location, scale.rounds * 5)
                with environment(server, proxy.endpoint):
                    proxy.taken()
                    way(location)
                costs[name] = spent, requests + len(proxy.taken())
    rows = [(name, f"{spent / _CYCLE:.2f} ms", f"{requests / _CYCLE:.1f}") for name, (spent, requests) in costs.items()]
    said = "Version, live files, protocol and watermark of a small table in a bucket, by its log alone: the mean of ten commits."
    section.tables.append(Table(said, ("by", "processor time", "requests"), rows))
    return section


def _versions(location: Location) -> Iterator[int]:
    """Makes a table, and goes through a cycle of commits behind its first checkpoint."""
    for number in range(2 * _CYCLE):
        write_deltalake(
            location.uri,
            pa.table({"id": [number], "_seq": [number]}),
            mode="append",
            configuration={"delta.checkpointInterval": str(_CYCLE)},
            storage_options=delta_options(location, os.environ) or None,
        )
        if number >= _CYCLE:
            yield number


def _by_replay(location: Location) -> None:
    state = replay(location)
    assert state is not None
    table = TableContents(location, state)
    assert (len(table.files()), table.watermark("w")) == (state.version + 1, None)


def _by_delta_rs(location: Location) -> None:
    table = DeltaTable(location.uri, storage_options=delta_options(location, os.environ) or None)
    adds = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    assert (adds.num_rows, table.transaction_version("w"), table.protocol().min_reader_version) == (table.version() + 1, None, 1)


_WAYS: dict[str, Callable[[Location], None]] = {"the replay": _by_replay, "delta-rs": _by_delta_rs}


def _milliseconds(way: Callable[[Location], None], location: Location, times: int) -> float:
    way(location)
    began = time.process_time()
    for _ in range(times):
        way(location)
    return (time.process_time() - began) / times * 1000
