"""What booking a flush of many users costs, in processor time and statements: for this commit, and for an earlier one.

    python -m benchmarks.deployment.booked USERS [--storage SQLite|Postgres] [--into WAREHOUSE HOME]

Prints JSON. With `--into` it makes a warehouse and books on the instance of that home, once. Runs alone too, in the directory of
an earlier commit (`benchmarks.deployment` shows how).
"""

import argparse
import inspect
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypedDict

import dagster as dg
from sqlalchemy import Engine, event

from lakewarden.catalog.model import Column
from lakewarden.catalog.report import ScopeReport
from lakewarden.client import Lakehouse
from tests.fixtures.dagster import on_postgres, sqlite_instance
from tests.fixtures.postgres import serve_postgres

TABLE = "bench.notes"
A_RUN = 1_000
"""Scopes of a run that the flush sensor requests."""


class Printed(TypedDict):
    """Seconds of processor time; by storage, those of booking and its statements."""

    users: int
    flush: float
    booked: dict[str, tuple[float, int]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deployment.booked")
    parser.add_argument("users", type=int)
    parser.add_argument("--storage", choices=["SQLite", "Postgres"], nargs="*", default=["SQLite", "Postgres"])
    parser.add_argument("--into", nargs=2, metavar=("WAREHOUSE", "HOME"))
    given = parser.parse_args()
    os.environ["LAKEWARDEN_FLUSH__IN_PROCESS_BELOW"] = str(given.users + 1)
    os.environ["DAGSTER_EVENT_BATCH_SIZE"] = "500"
    if given.into is None:
        _measure(given.users, given.storage)
    else:
        _fill(given.users, *given.into)


def _fill(users: int, warehouse: str, home: str) -> None:
    with Lakehouse.open(warehouse) as lake, dg.DagsterInstance.from_config(home) as instance:
        _booked(lake, _flushed(lake, users)[0], instance)


def _measure(users: int, storages: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as root, Lakehouse.open(f"{root}/lake") as lake:
        reports, flush = _flushed(lake, users)
        found = Printed(users=users, flush=flush, booked={})
        if "SQLite" in storages:
            with sqlite_instance(Path(root) / "sqlite") as instance:
                found["booked"]["SQLite"] = _booked(lake, reports, instance)
        if "Postgres" in storages:
            with serve_postgres() as server, on_postgres(Path(root) / "postgres", server) as instance:
                found["booked"]["Postgres"] = _booked(lake, reports, instance)
    sys.stdout.write(json.dumps(found) + "\n")


def _flushed(lake: Lakehouse, users: int) -> tuple[list[ScopeReport], float]:
    """The reports of a first flush of each user, and its seconds of processor time."""
    lake.create_namespace("bench")
    table = lake.create_table(TABLE, type="USER", columns=[Column("id", "BIGINT"), Column("content", "TEXT")], primary_key=["id"])
    reports: list[ScopeReport] = []
    began = 0.0
    for key in range(1):
        table.write([{"user": f"u{n:06d}", "id": key, "content": "text"} for n in range(users)], user_column="user")
        began = time.process_time()
        reports = lake.flush(TABLE)
    return reports, time.process_time() - began


def _booked(lake: Lakehouse, reports: list[ScopeReport], instance: dg.DagsterInstance) -> tuple[float, int]:
    """Seconds of processor time, and statements, of what the op of a run does behind its flush."""
    taken: list[tuple[float, int]] = []
    book, given = _book(lake)

    @dg.op
    def booking(context: dg.OpExecutionContext) -> None:
        with counted() as statements:
            began = time.process_time()
            for start in range(0, len(reports), A_RUN):
                book(context, lake, *given, reports[start : start + A_RUN])
            taken.append((time.process_time() - began, len(statements)))

    @dg.job(executor_def=dg.in_process_executor)
    def booking_job() -> None:
        booking()

    quiet = {"loggers": {"console": {"config": {"log_level": "WARNING"}}}}
    booking_job.execute_in_process(instance=instance, run_config=quiet)
    return taken[0]


def _book(lake: Lakehouse) -> tuple[Callable[..., None], tuple[object, ...]]:
    """The function of this commit, or of one whose code of Dagster stood at the top; and what it takes behind the warehouse."""
    try:
        book = import_module("lakewarden.dagster.jobs.event_log.book").book
    except ModuleNotFoundError:
        return import_module("jobs.booking").book, ()
    mount: ModuleType = import_module("lakewarden.dagster.mount")
    assert "mount" in inspect.signature(book).parameters
    return book, (mount.Mount(lake.warehouse.uri),)


@contextmanager
def counted() -> Iterator[list[str]]:
    """The statements that SQLAlchemy sends inside the block, each with its first words."""
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement[:40])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


if __name__ == "__main__":
    main()
