"""What an ingest did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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

    done: IngestReport

    def add(self, batch: ObjectBatch, attempt: Attempt, version: int | None) -> None:
        found = [(offered.object, taken) for offered, taken in zip(batch.objects, attempt.taken, strict=True)]
        self._count([ObjectReport(one.key, one.etag, taken.outcome, taken.rows, taken.reason) for one, taken in found])
        size = sum(one.size for one, taken in found if taken.outcome == "ingested")
        newest = self.done.version if version is None else version
        self.done = replace(self.done, batches=self.done.batches + 1, bytes=self.done.bytes + size, version=newest)

    def stop(self, *, more: bool) -> None:
        """Notes whether it stopped at its limit."""
        self.done = replace(self.done, more=self.done.more or more)

    def skip(self, reports: Iterable[ObjectReport], *, named: bool) -> None:
        self._count([*reports], shown=named)

    def _count(self, reports: Sequence[ObjectReport], *, shown: bool = True) -> None:
        done, counts = self.done, Counter(each.outcome for each in reports)
        self.done = replace(
            done,
            rows=done.rows + sum(each.rows for each in reports),
            ingested=done.ingested + counts["ingested"],
            rejected=done.rejected + counts["rejected"],
            left=done.left + counts["left"],
            skipped=done.skipped + counts["known"] + counts["unmatched"],
            objects=(*done.objects, *reports)[:SHOWN] if shown else done.objects,
        )
