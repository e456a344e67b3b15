"""What flushing every user of a table through `lakewarden ui` costs, from its start on: on this commit and on an earlier one.

    python -m benchmarks.deployment.flushed ../before [USERS]

Processor time of the runs with their JVMs, and of the servers (web server, daemon, code server, whose ticks go on as long as the
runs take), until each user has an event and no run is left. Prints JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import dagster as dg
import psutil

from benchmarks.deployment.booked import TABLE
from tests.fixtures.servers import free_port

_FILL = """
import sys
from lakewarden.catalog.model import Column
from lakewarden.client import Lakehouse
name, users = sys.argv[2], int(sys.argv[3])
columns = [Column("id", "BIGINT"), Column("content", "TEXT")]
with Lakehouse.open(sys.argv[1]) as lake:
    lake.create_namespace(name.split(".")[0])
    options = {"FLUSH_POLICY": "rows:1"}
    table = lake.create_table(name, type="USER", columns=columns, primary_key=["id"], options=options)
    table.write([{"user": f"u{n:06d}", "id": 1, "content": "text"} for n in range(users)], user_column="user")
"""
"""Both commits have all that this uses."""
_OPEN = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_POLLS_EACH = 1.0

_OF_RUNS = ("multiprocessing", "java", "pyspark")
"""In the commands of a run's processes."""

Cost = tuple[float, float, float]
"""Seconds of processor time of runs and of servers, and seconds by the clock."""


def main(before: str, users: int) -> None:
    checkouts = {"before": Path(before).resolve(), "now": Path(__file__).parents[2]}
    with tempfile.TemporaryDirectory(prefix="lakewarden-flushed-") as root:
        found = {name: _flushed(checkout, Path(root) / name, users) for name, checkout in checkouts.items()}
    sys.stdout.write(json.dumps({"users": users, **found}) + "\n")


def _flushed(checkout: Path, place: Path, users: int) -> Cost:
    place.mkdir()
    programs, lake, home = checkout / ".venv" / "bin", str(place / "lake"), place / "home"
    environment = {**os.environ, "PYTHONPATH": "."}
    subprocess.run([programs / "python", "-c", _FILL, lake, TABLE, str(users)], check=True, cwd=checkout, env=environment)
    program, port = str(programs / "lakewarden"), str(free_port())
    serving = [program, "ui", "--warehouse", lake, "--port", port, "--dagster-home", str(home)]
    began = time.monotonic()
    with subprocess.Popen(serving, cwd=checkout, env=environment, stdout=subprocess.DEVNULL) as ui:
        try:
            return *_until_done(psutil.Process(ui.pid), home, users), time.monotonic() - began
        finally:
            ui.terminate()


def _until_done(ui: psutil.Process, home: Path, users: int) -> tuple[float, float]:
    spent: dict[bool, dict[psutil.Process, float]] = {True: {}, False: {}}
    while not (home / "dagster.yaml").exists():
        time.sleep(_POLLS_EACH)
    os.environ["DAGSTER_HOME"] = str(home)  # a home's settings may name it
    with dg.DagsterInstance.from_config(str(home)) as instance:
        while not _is_done(instance, users):
            for process in (ui, *ui.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    spent[_is_of_a_run(process)][process] = times.user + times.system
            time.sleep(_POLLS_EACH)
    return sum(spent[True].values()), sum(spent[False].values())


def _is_of_a_run(process: psutil.Process) -> bool:
    command = " ".join(process.cmdline())
    return any(word in command for word in _OF_RUNS)


def _is_done(instance: dg.DagsterInstance, users: int) -> bool:
    booked = instance.get_materialized_partitions(dg.AssetKey(TABLE.split(".")))
    return len(booked) >= users and not instance.get_runs(dg.RunsFilter(statuses=_OPEN), limit=1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000)
