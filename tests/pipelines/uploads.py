"""A warehouse with one pipeline, and what the tests of ingests do to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lakewarden import Lakehouse
from lakewarden.faults import Reach, no_faults
from lakewarden.pipelines.ingest.here import read_here
from lakewarden.pipelines.ingest.report import IngestReport
from lakewarden.pipelines.ingest.run import Ingest, IngestRequest
from lakewarden.scope import TableName
from lakewarden.sql.results import Rows

NAME = TableName("n", "t")

_ticks = iter(range(1, 1 << 40))


def rows(lake: Lakehouse, text: str) -> list[dict[str, object]]:
    (found,) = lake.sql(text)
    assert isinstance(found, Rows)
    return found.to_pylist()


def make(lake: Lakehouse, options: str = "", template: str = "csv") -> None:
    lake.create_namespace("n")
    lake.sql(f"CREATE SHARED TABLE n.t FROM TEMPLATE {template}{f' WITH ({options})' if options else ''}")


def place(lake: Lakehouse) -> Path:
    return Path(lake.warehouse.uri) / "uploads" / "n"


def upload(lake: Lakehouse, objects: Mapping[str, str]) -> None:
    upload_to(place(lake), objects)


def upload_to(directory: Path, objects: Mapping[str, str]) -> None:
    """Each upload is later than those before it, whatever the clock of the disk can tell apart."""
    for key, text in objects.items():
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        moment = 1_700_000_000_000_000_000 + next(_ticks)
        os.utime(path, ns=(moment, moment))


def ingest(
    lake: Lakehouse, *objects: str, force: bool | None = None, limit: int | None = None, reach: Reach = no_faults
) -> IngestReport:
    request = IngestRequest(NAME, objects or None, force=bool(objects) if force is None else force, limit=limit)
    return Ingest(lake.warehouse, request, read_here, "IN-1", reach).run()


def table(lake: Lakehouse, columns: str = "id, name") -> list[tuple[object, ...]]:
    found = rows(lake, f"SELECT {columns} FROM n.t ORDER BY ALL")
    return [tuple(row.values()) for row in found]


def rejects(lake: Lakehouse) -> dict[str, str]:
    """The reasons by object; fails if one is there twice."""
    found = rows(lake, "SELECT object, error FROM n.t_rejects")
    assert len({row["object"] for row in found}) == len(found)
    return {str(row["object"]): str(row["error"]) for row in found}
