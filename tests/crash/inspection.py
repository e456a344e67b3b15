"""What a fresh process finds in a warehouse after a cut, held against all that may be there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lakewarden import Lakehouse
from lakewarden.errors import LakewardenError, NotFound
from lakewarden.tables.freshness import Freshness
from tests.crash.perform import finish
from tests.crash.steps import Expected, Rows, ScopeKey, Step, outcomes, stamp_in

T = TypeVar("T")


@dataclass
class Inspection:
    """What was found; `wrong` has a line for each broken promise."""

    wrong: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    """What could not be used before `repair`."""
    scopes: dict[ScopeKey, Rows] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)


def inspect(lake: Lakehouse, root: Path, expected: Expected, open_steps: Mapping[int, Step]) -> Inspection:
    """Looks at everything, and once more behind a repair where something is wrong."""
    first = _look(lake, root, expected, open_steps)
    repair = getattr(lake, "repair", None)  # the library of the old commit, which this is tried on too, has none
    if not first.wrong or repair is None:
        return first
    failed: list[str] = []
    done = _tried(failed, "repair", repair) or []
    second = _look(lake, root, expected, open_steps)
    if not (failed or second.wrong):
        return replace(second, repaired=first.wrong + [f"repair: {one}" for one in done if one.outcome != "skipped"])
    return replace(second, wrong=first.wrong + failed + [f"behind a repair: {line}" for line in second.wrong])


def glance(lake: Lakehouse, expected: Expected, open_steps: Mapping[int, Step]) -> Inspection:
    """Reads everything strongly, and changes nothing: what a cut left meets the next one."""
    found = Inspection()
    possible = list(outcomes(expected, open_steps.items()))
    found.scopes = _read(found, lake, _scopes(possible), "strong")
    found.tables = {str(table.name) for table in lake.tables()}
    found.wrong += _nearest(found.scopes, possible)
    return found


def _look(lake: Lakehouse, root: Path, expected: Expected, open_steps: Mapping[int, Step]) -> Inspection:
    """Reads, checks and flushes everything; what was begun and can be done again is done again first."""
    failed: list[str] = []
    for step in open_steps.values():
        if step.finishes:
            _tried(failed, f"{step.kind} {step.table} {step.user} again", partial(_finish, lake, step))
    found = glance(lake, expected, open_steps)
    found.wrong[:0] = failed
    scopes = _scopes(outcomes(expected, open_steps.items()))
    _check(found, lake, "after the cut")
    _flush(found, lake)
    for kind, rows in (
        ("a strong read", _read(found, lake, scopes, "strong")),
        ("an eventual read", _read(found, lake, scopes, "eventual")),
        ("another Delta reader", _deltas(found, root, scopes)),
    ):
        found.wrong += [f"{kind} behind a flush: {line}" for line in _differences(rows, found.scopes)]
    _check(found, lake, "behind a flush")
    return found


def _scopes(possible: Iterable[Expected]) -> list[ScopeKey]:
    return sorted({scope for outcome in possible for scope in outcome.scopes})


def _finish(lake: Lakehouse, step: Step) -> None:
    try:
        finish(lake, step)
    except NotFound:
        if step.kind != "drop":
            raise


def _read(found: Inspection, lake: Lakehouse, scopes: Iterable[ScopeKey], freshness: Freshness) -> dict[ScopeKey, Rows]:
    read = {}
    for scope in scopes:
        rows = _tried(found.wrong, f"{freshness} read of {scope}", partial(_rows_of, lake, scope, freshness))
        if rows is not None:
            read[scope] = rows
    return read


def _rows_of(lake: Lakehouse, scope: ScopeKey, freshness: Freshness) -> Rows:
    return _stamps(lake.table(scope.table).read(user=scope.user or None, freshness=freshness).to_pylist())


def _deltas(found: Inspection, root: Path, scopes: Iterable[ScopeKey]) -> dict[ScopeKey, Rows]:
    read: dict[ScopeKey, Rows] = {}
    for scope in scopes:
        place = root.joinpath("data", *scope.table.split("."), scope.user)
        rows = _tried(found.wrong, f"deltalake on {scope}", partial(_delta, place))
        if rows is not None:
            read[scope] = rows
    return read


def _delta(place: Path) -> Rows:
    if not (place / "_delta_log").is_dir():
        return {}
    return _stamps(DeltaTable(str(place)).to_pyarrow_table().to_pylist())


def _stamps(rows: list[dict[str, object]]) -> Rows:
    stamps: Rows = {}
    for row in rows:
        key = int(str(row["id"]))
        stamps[key] = "twice" if key in stamps else stamp_in(str(row["text"]), key)
    return stamps


def _check(found: Inspection, lake: Lakehouse, when: str) -> None:
    findings = _tried(found.wrong, f"check {when}", lake.check) or []
    found.wrong += [f"check {when}: {one.subject} {one.check}: {one.code} {one.message}" for one in findings if not one.passed]


def _flush(found: Inspection, lake: Lakehouse) -> None:
    reports = _tried(found.wrong, "flush", lake.flush) or []
    found.wrong += [f"flush of {report.scope}: {report.fault}" for report in reports if report.fault]
    if left := _tried(found.wrong, "pending", lake.pending):
        found.wrong.append(f"pending behind a flush: {left}")


def _tried(wrong: list[str], what: str, call: Callable[[], T]) -> T | None:
    try:
        return call()
    except LakewardenError as error:
        wrong.append(f"{what}: {error.code} {error}")
    except (DeltaError, OSError, ValueError) as error:
        wrong.append(f"{what}: {type(error).__name__} {error}")
    return None


def _nearest(actual: Mapping[ScopeKey, Rows], possible: Iterable[Expected]) -> list[str]:
    """How the rows differ from the outcome that they are most like; empty where they are one."""
    return min((_differences(actual, outcome.scopes) for outcome in possible), key=len)


def _differences(actual: Mapping[ScopeKey, Rows], wanted: Mapping[ScopeKey, Rows]) -> list[str]:
    lines = []
    for scope in sorted({*actual, *wanted}):
        have, want = actual.get(scope, {}), wanted.get(scope, {})
        lines += [
            f"{scope.table} {scope.user} row {key}: {have.get(key, 'absent')}, not {want.get(key, 'absent')}"
            for key in sorted({*have, *want})
            if have.get(key) != want.get(key)
        ]
    return lines
