"""A warehouse with one pipeline, and what the tests of ingests do to it."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakewarden import Lakehouse
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Pipeline
from lakewarden.catalog.state.ledger import OfferedObject
from lakewarden.ingest.pipelines.reading import Reading, ReadObject
from lakewarden.ingest.pipelines.report import IngestReport
from lakewarden.ingest.pipelines.run import IngestRequest, ObjectIngest, Readers
from lakewarden.ingest.templates.fitting import ObjectFitting
from lakewarden.ingest.templates.object_file import ObjectFile
from lakewarden.ingest.templates.options import parse_options, template_named
from lakewarden.ingest.templates.template import Columns
from lakewarden.ingest.templates.worker import ObjectRows, ReadRejected
from lakewarden.log.once import Resume
from lakewarden.sql.results import ResultRows
from lakewarden.storage.sources import ObjectSource, SourceObject
from lakewarden.storage.steps import Steps, alone
from lakewarden.tables.fanout import SizedWork

NAME = TableName("n", "t")

_ticks = iter(range(1, 1 << 40))


def rows(lake: Lakehouse, text: str) -> list[dict[str, object]]:
    (found,) = lake.sql(text)
    assert isinstance(found, ResultRows)
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
        moment = 1_700_000_000_000_000_000 + next(_ticks) * 1_000_000
        os.utime(path, ns=(moment, moment))


def read_here(source: ObjectSource, pipeline: Pipeline, objects: Sequence[OfferedObject], directory: Path) -> Reading:
    """In this process, without the bounds: a child process takes longer to start than most tests."""
    return Reading(source, ReadHere(pipeline), lambda work, numbers: [work(number) for number in numbers], directory, objects)


@dataclass(frozen=True)
class ReadHere:
    """Reads one object in this process."""

    pipeline: Pipeline

    def __call__(
        self, uploaded: SourceObject, columns: Columns, ranges: Callable[[int, int], bytes], into: Path
    ) -> ObjectRows | ReadRejected:
        template = template_named(self.pipeline.template)
        options = parse_options(template, json.loads(self.pipeline.options))
        fit = ObjectFitting(columns)
        writer: pa.ipc.RecordBatchStreamWriter | None = None
        with pa.OSFile(str(into), "wb") as sink:
            for batch in template.read(ObjectFile(uploaded.key, uploaded.size, ranges), options, columns):
                fitted = fit(batch)
                writer = writer or pa.ipc.new_stream(sink, fitted.schema)
                writer.write_batch(fitted)
            if writer is not None:
                writer.close()
        return ObjectRows(fit.rows, 0, fit.columns if fit.rows else {}, into)


def run_here(work: Callable[[Any], Steps[Any]], items: Sequence[SizedWork[Any]]) -> list[Any]:
    """As Spark runs tasks: what they are given is pickled."""
    sent, parts = pickle.loads(pickle.dumps((work, [item.work for item in items])))
    return [alone(sent(part)) for part in parts]


def in_task(pipeline: Pipeline) -> Callable[[], AbstractContextManager[ReadObject]]:
    return Opened(ReadHere(pipeline))


@dataclass(frozen=True)
class Opened:
    read: ReadObject

    def __call__(self) -> AbstractContextManager[ReadObject]:
        return nullcontext(self.read)


READERS = Readers(read_here, run_here, in_task)


def ingest(
    lake: Lakehouse,
    *objects: str,
    force: bool | None = None,
    limit: int | None = None,
    resume: Resume | None = None,
    reach: Reach = no_faults,
) -> IngestReport:
    forced = bool(objects) if force is None else force
    request = IngestRequest(NAME, objects or None, force=forced, limit=limit, resume=resume)
    return ObjectIngest(lake.warehouse, request, READERS, f"IN-{next(_ticks)}", reach).run()


def table(lake: Lakehouse, columns: str = "id, name") -> list[tuple[object, ...]]:
    found = rows(lake, f"SELECT {columns} FROM n.t ORDER BY ALL")
    return [tuple(row.values()) for row in found]


def rejects(lake: Lakehouse) -> dict[str, str]:
    """The reasons by object; fails if one is there twice."""
    found = rows(lake, "SELECT object, error FROM n.t_rejects")
    assert len({row["object"] for row in found}) == len(found)
    return {str(row["object"]): str(row["error"]) for row in found}
