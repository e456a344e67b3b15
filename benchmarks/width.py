"""`python -m benchmarks.width --old DIR`: the processor time of a small merge in a flush, of few columns and of many.

DIR holds an old commit with its own `.venv`. Both sides take turns, as in `benchmarks.pairs`, but it is the processor's time that
counts: a flush of many small scopes waits for little else.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.measuring.page import Section, Table, rewrite
from benchmarks.measuring.ratio import ratio
from benchmarks.pairs import ENOUGH, Side, commit_of, side
from benchmarks.side import NARROW, SIZES, WIDE, Shape

_NEW = Path(__file__).parent.parent
_PAGE = _NEW / "docs" / "performance.md"
_SHAPES = (("narrow merges", NARROW), ("wide merges", WIDE))


def compare(old: Path, rounds: int, size: str, place: Path) -> Table:
    with side(old, f"{place}/old", size, {}) as before, side(_NEW, f"{place}/new", size, {}) as after:
        olds, news = _in_turns((before, after), rounds)
    lines = [
        (_said(shape), _ms(olds[what]), _ms(news[what]), _ratio(olds[what], news[what]), "at most 0.5") for what, shape in _SHAPES
    ]
    wider = (_ratio(*taken.values()) for taken in (olds, news))
    return Table(
        f"Processor time of each scope in a flush of {SIZES[size].merged} scopes, in process, all rows in place of others; the"
        f" median of {rounds} rounds, this commit and {commit_of(old)}, few columns and many in turns, and the ratio's geometric"
        " mean with its 95 % interval.",
        ("rows of a scope", "old", "new", "new is, times", "target"),
        (*lines, ("many columns are, times", *wider, "", "at most 1.3")),
    )


def _in_turns(sides: tuple[Side, Side], rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of the old side and of the new one, by shape, after a round that warms up."""
    old: dict[str, list[float]] = {what: [] for what, _ in _SHAPES}
    new: dict[str, list[float]] = {what: [] for what, _ in _SHAPES}
    for turn in range(rounds + 1):
        for what in old:
            for which, found in ((0, old), (1, new)) if turn % 2 else ((1, new), (0, old)):
                found[what].append(sides[which].seconds(what))
    return {what: found[1:] for what, found in old.items()}, {what: found[1:] for what, found in new.items()}


def _ratio(before: Sequence[float], after: Sequence[float]) -> str:
    return str(ratio(before, after))


def _said(shape: Shape) -> str:
    return f"{shape.replaced} of {len(shape.columns)} columns onto {shape.existing:,}"


def _ms(seconds: Sequence[float]) -> str:
    return f"{1000 * median(seconds):.2f} ms"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.width", description=__doc__)
    parser.add_argument("--old", type=Path, required=True, help="a worktree of the old commit, with its .venv")
    parser.add_argument("--rounds", type=int, default=ENOUGH, help=f"pairs; from {ENOUGH} on they go into docs/performance.md")
    parser.add_argument("--size", choices=list(SIZES), default="full")
    parser.add_argument("--place", type=Path, help="directory for the data, on the disk that is to be measured; removed again")
    given = parser.parse_args(arguments)
    section = Section("width", given.size)  # before the work, which would be part of the load
    with tempfile.TemporaryDirectory(prefix="lakewarden-width-", dir=given.place) as place:
        section.tables.append(compare(given.old.resolve(), given.rounds, given.size, Path(place)))
    now = datetime.now(UTC)
    print(section.text(now))
    if given.rounds >= ENOUGH and given.size == "full":
        rewrite(_PAGE, section, now)


if __name__ == "__main__":
    main()
