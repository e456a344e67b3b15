"""What an ingest did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from lakewarden.catalog.state.ledger import Attempt, ObjectBatch

SHOWN = 1_000
"""Objects that a report names, at most; it counts all of them."""

Became = Literal["ingested", "rejected", "left", "known", "unmatched"]


@dataclass(frozen=True)
class ObjectReport:
    """What became of an object. `known`: it was taken before with this ETag; `unmatched`: the rule does not take it."""

    object: str
    etag: str
    outcome: Became
    rows: int = 0
    reason: str = ""


@dataclass(frozen=True)
class IngestReport:
    """What an ingest into one table did."""

    table: str
    pipeline_id: str
    job_id: str
    rows: int = 0
    ingested: int = 0
    rejected: int = 0
    left: int = 0
    """Objects that were gone or changed when they were read; the next ingest sees what is there then."""
    skipped: int = 0
    """Objects that are known with this ETag, or that the rule does not take."""
    bytes: int = 0
    """Of the objects that were ingested."""
    batches: int = 0
    version: int | None = None
    """Of Delta, after the last commit of this ingest."""
    more: bool = False
    """Whether it stopped at its limit."""
    objects: tuple[ObjectReport, ...] = ()
    """The first ones; those that were skipped only where they were named."""

    def __str__(self) -> str:
        taken = f"{self.ingested} objects ingested, {self.rows} rows"
        others = f"{self.rejected} rejected, {self.left} left, {self.skipped} skipped"
        return f"{taken}; {others}; {self.batches} commits{'; there is more' if self.more else ''}"


@dataclass
class Tally:
    """Counts what an ingest does."""

    table: str
    pipeline_id: str
    job_id: str
    counts: dict[str, int] = field(default_factory=dict)
    objects: list[ObjectReport] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    batches: int = 0
    version: int | None = None
    more: bool = False

    def add(self, batch: ObjectBatch, attempt: Attempt) -> None:
        self.batches += 1
        for offered, taken in zip(batch.objects, attempt.taken, strict=True):
            found = offered.object
            self._add(ObjectReport(found.key, found.etag, taken.outcome, taken.rows, taken.reason))
            self.rows += taken.rows
            self.bytes += found.size if taken.outcome == "ingested" else 0

    def skip(self, reports: Iterable[ObjectReport], *, named: bool) -> None:
        for report in reports:
            self._add(report, shown=named)

    def _add(self, report: ObjectReport, *, shown: bool = True) -> None:
        self.counts[report.outcome] = self.counts.get(report.outcome, 0) + 1
        if shown and len(self.objects) < SHOWN:
            self.objects.append(report)

    @property
    def report(self) -> IngestReport:
        count = self.counts.get
        return IngestReport(
            self.table,
            self.pipeline_id,
            self.job_id,
            rows=self.rows,
            ingested=count("ingested", 0),
            rejected=count("rejected", 0),
            left=count("left", 0),
            skipped=count("known", 0) + count("unmatched", 0),
            bytes=self.bytes,
            batches=self.batches,
            version=self.version,
            more=self.more,
            objects=tuple(self.objects),
        )
