"""Damaged pipelines: how each state comes about, and what an ingest does behind its repair.

The tests run this list, and docs/reference/damage.md is generated from it. Each begins with the uploads a, b and c taken, one
after the other, and copies of the warehouse's parts from behind a.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_AGAIN = "each file is taken once more, in place of its rows"
_STOPS = "FAILED_PRECONDITION until `--resume repeat` takes the lost files again, or `skip` goes on"


@dataclass(frozen=True)
class Parts:
    """A warehouse, and copies of `_lakewarden` and `data`."""

    warehouse: Path
    copies: Path

    def put_back(self, part: str) -> None:
        shutil.rmtree(self.warehouse / part)
        shutil.copytree(self.copies / part, self.warehouse / part)

    @property
    def runs(self) -> list[Path]:
        found = (self.warehouse / "_lakewarden" / "pipelines").glob("*/known/*")
        return sorted(found, key=lambda path: path.name.split("-")[1])

    @property
    def files(self) -> list[Path]:
        return sorted((self.warehouse / "data" / "n" / "t").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)


@dataclass(frozen=True)
class State:
    """`ingest`: what it says before the repair. `stops`: whether the pipeline has to be resumed behind it."""

    name: str
    make: Callable[[Parts], None]
    ingest: Literal["CORRUPT", "done"] = "CORRUPT"
    restored: bool = False
    stops: bool = False

    @property
    def then(self) -> str:
        return _STOPS if self.stops else _AGAIN


def _ledger_alone(parts: Parts) -> None:
    parts.put_back("_lakewarden/pipelines")


def _state(parts: Parts) -> None:
    parts.put_back("_lakewarden")


def _data(parts: Parts) -> None:
    parts.put_back("data")


def _newest_run(parts: Parts) -> None:
    parts.runs[-1].unlink()


def _older_run(parts: Parts) -> None:
    parts.runs[1].unlink()


def _cut_off(parts: Parts) -> None:
    parts.runs[1].write_bytes(parts.runs[1].read_bytes()[:-1])


def _torn_entry(parts: Parts) -> None:
    (parts.runs[0].parent.parent / "entries" / f"{7:020d}").write_bytes(b"{")


def _file(parts: Parts) -> None:
    parts.files[-1].unlink()


def _commit(parts: Parts) -> None:
    """Without its manifest, which would show what was in it."""
    log = parts.warehouse / "data" / "n" / "t" / "_delta_log"
    max(log.glob("*.json")).unlink()
    (log.parent / "manifest.json").unlink()


STATES = (
    State("the state restored from an older backup, ingests since", _state, restored=True),
    State("the ledger restored from an older backup", _ledger_alone),
    State("the newest run of a ledger lost", _newest_run),
    State("an older run of a ledger lost", _older_run),
    State("a run of a ledger cut off", _cut_off),
    State("an entry of a ledger cut off", _torn_entry),
    State("the data restored from an older backup, ingests since", _data, restored=True, stops=True),
    State("a data file of a pipeline's table lost", _file, ingest="done", stops=True),
    State("the newest commit of a pipeline's table and its manifest lost", _commit, stops=True),
)
