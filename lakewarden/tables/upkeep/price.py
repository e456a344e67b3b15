"""What a compaction and a packing of a scope would rewrite, by their own functions: noted while the files' sizes are at hand."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.catalog.kept_settings import TailRule
from lakewarden.catalog.operations import Operation
from lakewarden.catalog.report import ScopeReport, ScopeState
from lakewarden.catalog.state.floors.entries import UNSEEN
from lakewarden.tables.upkeep.packing import pack_files, why_not
from lakewarden.tables.upkeep.rules import PackRule, files_of
from lakewarden.tables.upkeep.tail import fitting, small_run


@dataclass(frozen=True)
class RewritePrice:
    """So many files of so many bytes would become `made` files."""

    files: int
    made: int
    bytes: int


FREE = RewritePrice(0, 0, 0)
UNKNOWN_PRICE = RewritePrice(UNSEEN, UNSEEN, UNSEEN)


def fold_price(report: ScopeReport, state: ScopeState, rule: TailRule, known: RewritePrice) -> RewritePrice:
    """Of a compaction by this rule; `known`: what was noted of the same version before."""
    if not state.is_listed:
        return _of_report(report, "compact", known)
    taken = fitting(small_run(files_of(state), rule), rule)
    return RewritePrice(len(taken), 1, sum(file.size for file in taken)) if taken else FREE


def pack_price(report: ScopeReport, state: ScopeState, rule: PackRule, known: RewritePrice) -> RewritePrice:
    """The same of a packing."""
    if not state.is_listed:
        return _of_report(report, "optimize", known)
    files = files_of(state)
    if why_not(files, rule.target_file_size, rule.min_gain, rule.ratio):
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
