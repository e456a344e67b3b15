"""What a report says of a scope for later maintenance, continued from what was known before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.base.clock import to_millis
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import Remains, ScopeReport, ScopeState
from lakewarden.catalog.state.floor_entries import NEVER, OPERATIONS, UNSEEN, KnownState, UpkeepNote
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.parquet.files import DataFile
from lakewarden.tables.upkeep_files import MIN_GAIN, RATIO, TARGET, ZORDER, fitting, pack_files, rule_of, small_run
from lakewarden.tables.upkeep_rules import UNKNOWN, FoldRule, PackRule, UpkeepRule, files_of, loosest, verdict


# What a compaction and a packing of a scope would rewrite, by their own functions: noted while the files' sizes are at hand.
@dataclass(frozen=True)
class RewritePrice:
    """So many files of this many bytes would become `made` files."""

    files: int
    made: int
    bytes: int


FREE = RewritePrice(0, 0, 0)
UNKNOWN_PRICE = RewritePrice(UNSEEN, UNSEEN, UNSEEN)


def fold_price(report: ScopeReport, files: Sequence[DataFile] | None, rule: FoldRule, known: RewritePrice) -> RewritePrice:
    """Of a compaction by this rule; `files`: if all are listed; `known`: what was noted of the same version before."""
    if files is None:
        return _of_report(report, "compact", known)
    taken = fitting(small_run(files, rule.tail), rule.tail)
    return RewritePrice(len(taken), 1, sum(file.size for file in taken)) if taken else FREE


def pack_price(report: ScopeReport, files: Sequence[DataFile] | None, rule: PackRule, known: RewritePrice) -> RewritePrice:
    """The same of a packing."""
    if files is None:
        return _of_report(report, "optimize", known)
    if rule.finds_nothing(files):
        return FREE
    packing = pack_files(files, rule.target_file_size, rule.ratio)
    return RewritePrice(len(packing.inputs), len(packing.bins), packing.bytes)


def _of_report(report: ScopeReport, operation: Operation, known: RewritePrice) -> RewritePrice:
    """What the operation itself found in a scope whose files are too many to be listed, or in partitions."""
    if report.operation != operation:
        return known
    if report.quiet:
        return FREE
    if report.outcome != "planned":
        return UNKNOWN_PRICE if report.outcome == "done" else known
    found = report.metrics
    return RewritePrice(found["files_removed"], found["files_added"], found["bytes_removed"])


_LATER = 60 * 60 * 1000
"""Milliseconds; a look is not noted more often for its time alone."""


def upkeep_of(target: ScopeTarget, report: ScopeReport, state: ScopeState, now: datetime) -> UpkeepNote:
    """What maintenance needs to know of the scope after this report, which has that state."""
    known = target.known
    before = None if known is None else known.upkeep
    # What was noted of this version holds still; what was noted of an earlier one is only where this one began.
    still = before if known is not None and known.version == state.version else None
    at, done = to_millis(report.finished_at or now), report.outcome == "done"
    follows = known is not None and known.version + 1 == state.version
    remains = report.remains or _remains(target, report, state, before if done else still, at)
    files = files_of(state) if state.is_listed else None
    fold, pack = FoldRule(target.rules.tail), PackRule(target.target_file_size, target.rules.min_gain, target.rules.tail.ratio)
    known_folding, known_packing = _known_prices(still)
    folding, packing = fold_price(report, files, fold, known_folding), pack_price(report, files, pack, known_packing)
    return UpkeepNote(
        files=state.files,
        bytes=state.bytes,
        committed_at=at if done else 0 if still is None else still.committed_at,
        operation=_operation(report) if done else 0 if still is None else still.operation,
        looked_at=at,
        compacted=_verdict(fold, _compacted(report), files, folding, UNKNOWN if still is None else still.compacted),
        optimized=_verdict(pack, _optimized(report), files, packing, UNKNOWN if still is None else still.optimized),
        dead_since=remains.dead_since,
        log_since=remains.log_since,
        dead_bytes=remains.dead_bytes if report.remains else _dead_bytes(report, state, before if follows else None, still),
        compact_bytes=folding.bytes,
        optimize_bytes=packing.bytes,
        compact_files=folding.files,
        optimize_files=packing.files,
        optimize_made=packing.made,
    )


def _known_prices(still: UpkeepNote | None) -> tuple[RewritePrice, RewritePrice]:
    """What is noted of this version: of folding, and of packing."""
    if still is None:
        return UNKNOWN_PRICE, UNKNOWN_PRICE
    folding = RewritePrice(still.compact_files, min(still.compact_files, 1), still.compact_bytes)
    return folding, RewritePrice(still.optimize_files, still.optimize_made, still.optimize_bytes)


def _dead_bytes(report: ScopeReport, state: ScopeState, before: UpkeepNote | None, still: UpkeepNote | None) -> int:
    """Those of the note of this version; of the one `before`, with what the report's only commit replaced."""
    if state.version == 0:
        return 0
    if report.outcome != "done":
        return UNSEEN if still is None else still.dead_bytes
    if before is None or before.dead_bytes == UNSEEN:
        return UNSEEN
    if report.operation == "restore" and report.metrics.get("files_added", 1):
        return UNSEEN  # some of these were dead
    return before.dead_bytes + report.metrics.get("bytes_removed", 0)


def is_news(known: KnownState, before: KnownState | None) -> bool:
    """Whether a look found something else than what was known, or came much later."""
    if before is None or before.upkeep is None or known.upkeep is None:
        return True
    if known.upkeep.looked_at - before.upkeep.looked_at >= _LATER:
        return True  # else the rolling look would come to the same scopes again
    looked_now = replace(before.upkeep, looked_at=known.upkeep.looked_at)
    return replace(before, deleted_upto=known.deleted_upto, upkeep=looked_now) != known


def _verdict(own: UpkeepRule, found: int, files: Sequence[DataFile] | None, price: RewritePrice, still: int) -> int:
    """The verdict that holds under most rules: `found` by the operation itself, by the files' sizes, and that from before.

    Where the own rule would rewrite something, which the price says, the loosest one would too: it is not tried.
    """
    if files is None or price != FREE:
        return loosest((found, still), (own.loosest, own))
    widest = verdict(own.loosest, files)
    return widest if widest != UNKNOWN else loosest((found, own.number, still), (own.loosest, own))


def _compacted(report: ScopeReport) -> int:
    """The rule by which a compaction itself had nothing to do, if this is its report."""
    return FoldRule(rule_of(report.parameters)).number if _found_nothing(report, "compact") else UNKNOWN


def _optimized(report: ScopeReport) -> int:
    """The same for packing."""
    if not _found_nothing(report, "optimize") or ZORDER in report.parameters:
        return UNKNOWN
    size, gain, ratio = (report.parameters[name] for name in (TARGET, MIN_GAIN, RATIO))
    return PackRule(int(size), float(gain), float(ratio)).number


def _found_nothing(report: ScopeReport, operation: Operation) -> bool:
    """Whether the operation itself had nothing to do."""
    return report.quiet and report.operation == operation


def _remains(target: ScopeTarget, report: ScopeReport, state: ScopeState, before: UpkeepNote | None, at: int) -> Remains:
    """What a vacuum may find: since `before`, only this report's commit was made, if any."""
    if state.version == 0:
        return Remains(NEVER, NEVER)
    if before is None:
        return Remains(0, 0)
    if report.outcome != "done":
        return Remains(before.dead_since, before.log_since)
    # a file of a FILE column may no longer be referred to, although no data file was replaced
    replaced = report.metrics.get("files_removed", 1) > 0 or bool(target.schema.of_files)
    return Remains(min(before.dead_since, at) if replaced else before.dead_since, min(before.log_since, at))


def _operation(report: ScopeReport) -> int:
    """The operation of the report's commit, as a table's history names it."""
    match report.operation:
        case "flush":
            return OPERATIONS.index("MERGE" if report.metrics.get("files_removed") else "WRITE")
        case "vacuum":
            return OPERATIONS.index("VACUUM END")
        case operation:
            return OPERATIONS.index(operation.upper()) if operation.upper() in OPERATIONS else 0
