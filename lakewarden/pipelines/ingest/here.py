"""Reads objects in this process, one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from lakewarden.catalog.pipeline import Pipeline
from lakewarden.pipelines.ingest.reading import Reading, ReadRows, Refused
from lakewarden.pipelines.ledger.entries import Offered
from lakewarden.pipelines.templates.fitting import Fitting
from lakewarden.pipelines.templates.object_file import ObjectFile
from lakewarden.pipelines.templates.options import parse_options
from lakewarden.pipelines.templates.registry import template_named
from lakewarden.pipelines.templates.template import Columns
from lakewarden.storage.sources.uploaded import Source, Uploaded

ReadWith = Callable[[Source, Pipeline, Sequence[Offered], Path], Reading]
"""Prepares to read objects of a source into files of a directory."""


def read_here(source: Source, pipeline: Pipeline, objects: Sequence[Offered], directory: Path) -> Reading:
    template = template_named(pipeline.template)
    options = parse_options(template, json.loads(pipeline.options))

    def read(uploaded: Uploaded, columns: Columns, ranges: Callable[[int, int], bytes], into: Path) -> ReadRows | Refused:
        fit = Fitting(columns)
        writer: pa.ipc.RecordBatchStreamWriter | None = None
        with pa.OSFile(str(into), "wb") as sink:
            for batch in template.read(ObjectFile(uploaded.key, uploaded.size, ranges), options, columns):
                fitted = fit(batch)
                writer = writer or pa.ipc.new_stream(sink, fitted.schema)
                writer.write_batch(fitted)
            if writer is not None:
                writer.close()
        return ReadRows(fit.rows, fit.columns if fit.rows else {}, into)

    return Reading(source, read, lambda work, numbers: [work(number) for number in numbers], directory, objects)
