"""Statements with their outcomes, as files that people read: tests/sql/corpus/*.txt.

A case is an optional line `@user role` (else the operator, root as system), the statement's lines, and its outcome:

    => 2 affected              rows that INSERT, UPDATE or DELETE changed
    => rows                    a query; then one JSON list a row, in order
    => message some words      a message that holds these words
    => jobs 1                  so many jobs were started
    => CODE some words         an error with that code, whose message holds these words

Cases of a file share a warehouse and run in order, each person's in one session but for those that choose a namespace, which
would stay chosen. `#` begins a comment line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakewarden import Lakehouse
from lakewarden.base.json_values import json_rows
from lakewarden.errors import LakewardenError
from lakewarden.sql.results import AffectedRows, Events, Result, ResultRows, StartedJobs
from lakewarden.sql.session import SqlSession

CORPUS = Path(__file__).parent / "corpus"
_CHOOSES = re.compile(r"\b(USE|SET)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    line: int
    user: str
    role: str
    statement: str
    outcome: str
    rows: tuple[str, ...] = ()


def cases(path: Path) -> Iterator[Case]:
    """The cases of a file, in order."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            block.append((number, line))
        elif block:
            yield _case(block)
            block = []


def _case(block: list[tuple[int, str]]) -> Case:
    user, role = "root", "system"
    start = block[0][0]
    lines = [line for _, line in block]
    if lines[0].startswith("@"):
        user, role = lines.pop(0)[1:].split()
    mark = next(index for index, line in enumerate(lines) if line.startswith("=>"))
    return Case(start, user, role, "\n".join(lines[:mark]), lines[mark][3:].strip(), tuple(lines[mark + 1 :]))


class Sessions:
    """The sessions of the persons of one file: opening DuckDB takes longer than most cases."""

    def __init__(self, lake: Lakehouse) -> None:
        self._lake = lake
        self._open: dict[tuple[str, str], SqlSession] = {}

    def of(self, case: Case) -> SqlSession:
        if _CHOOSES.search(case.statement):
            return self._lake.session(user=case.user, role=case.role)
        person = (case.user, case.role)
        if person not in self._open:
            self._open[person] = self._lake.session(user=case.user, role=case.role)
        return self._open[person]


def outcome(sessions: Sessions, case: Case) -> tuple[str, tuple[str, ...]]:
    """What came of the last statement of the case, in the corpus' own words."""
    try:
        results = sessions.of(case).sql(case.statement)
    except LakewardenError as error:
        return f"{error.code} {error.message}", ()
    return _told(results[-1]) if results else ("nothing", ())


def _told(result: Result) -> tuple[str, tuple[str, ...]]:
    match result:
        case ResultRows():
            return "rows", tuple(json.dumps(list(row.values()), ensure_ascii=False) for row in json_rows(result.to_pylist()))
        case AffectedRows():
            return f"{result.rows} affected", ()
        case Events():
            return "events", tuple(json.dumps([each.kind, *each.row.values()], ensure_ascii=False) for each in result.events)
        case StartedJobs():
            return f"jobs {len(result.job_ids)}", ()
        case _:
            return f"message {result.message}", ()


def agrees(case: Case, told: str, rows: tuple[str, ...]) -> bool:
    """An error or a message has to begin with its kind, and to hold the words that follow it."""
    kind, _, words = case.outcome.partition(" ")
    if kind == "message" or kind.isupper():
        return told.split(" ", 1)[0] == kind and words in told
    return told == case.outcome and rows == case.rows
