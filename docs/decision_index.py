"""The index of the decisions, made of their pages: what a newcomer needs first, then room by room, each with its status."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DECISIONS = Path(__file__).parent / "decisions"

FIRST = (1, 3, 5, 11, 19, 20, 26, 29, 33, 47)
"""What most other pages take for known."""

ROOMS = (
    *("the house", "storage", "catalog", "log", "delta", "tables", "maintenance"),
    *("ingest", "spark", "SQL", "client", "serve", "dagster"),
)

_PAGE = re.compile(r"# (?P<number>\d+)\. (?P<title>.+)\n\nRoom: (?P<room>[A-Za-z ]+)\. Status: (?P<status>.+)\.\n")


@dataclass(frozen=True)
class Decision:
    number: int
    title: str
    room: str
    status: str
    """`in force`, or by which decision it is superseded, and how much of it."""
    file: str


def decisions() -> list[Decision]:
    """All of them, in their order.

    Raises:
        ValueError: a page does not begin with its number, its title, its room and its status.
    """
    return [_read(path) for path in sorted(DECISIONS.glob("0*.md"))]


def index() -> Iterator[str]:
    """The lines of docs/decisions/README.md below its title."""
    found = decisions()
    yield "Why it is built this way, one decision a page. A number that is missing was not given, or its page went into another."
    yield ""
    yield "## Ten to begin with"
    yield ""
    yield from map(_line, (one for one in found if one.number in FIRST))
    for room in ROOMS:
        yield ""
        yield f"## {room[0].upper()}{room[1:]}"
        yield ""
        yield from map(_line, (one for one in found if one.room == room))


def _read(path: Path) -> Decision:
    match = _PAGE.match(path.read_text())
    if match is None or match["room"] not in ROOMS or int(match["number"]) != int(path.name[:4]):
        raise ValueError(f"{path.name} must begin with '# N. Title', and 'Room: R. Status: S.' with one of {', '.join(ROOMS)}")
    return Decision(int(match["number"]), match["title"], match["room"], match["status"], path.name)


def _line(decision: Decision) -> str:
    status = "" if decision.status == "in force" else f": {decision.status.removeprefix('in force; ')}"
    return f"- {decision.number}. [{decision.title}]({decision.file}){status}"
