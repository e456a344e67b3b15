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

from benchmarks.page import Section, Table, rewrite
from benchmarks.pairs import ENOUGH, commit_of, paired, side
from benchmarks.ratio import ratio
from benchmarks.side import NARROW, SIZES, WIDE, Shape

_NEW = Path(__file__).parent.parent
_PAGE = _NEW / "docs" / "performance.md"
_SHAPES = {"narrow merges": NARROW, "wide merges": WIDE}


def compare(old: Path, rounds: int, size: str, place: Path) -> Table:
    with side(old, f"{place}/old", size, {}) as before, side(_NEW, f"{place}/new", size, {}) as after:
        taken = {what: paired((before, after), what, rounds) for what in _SHAPES}
    lines = [
        (_said(_SHAPES[what]), _ms(olds), _ms(news), str(ratio(olds, news)), "at most 0.5")
        for what, (olds, news) in taken.items()
    ]
    (narrow_old, narrow_new), (wide_old, wide_new) = taken.values()
    wider = (f"{median(wide) / median(narrow):.2f}" for wide, narrow in ((wide_old, narrow_old), (wide_new, narrow_new)))
    return Table(
        f"Processor time of each scope in a flush of {SIZES[size].merged} scopes, in process, all rows in place of others; the"
        f" median of {rounds} pairs, this commit and {commit_of(old)} in turns, and the ratio's geometric mean with its 95 %"
        " interval.",
        ("rows of a scope", "old", "new", "new is, times", "target"),
        (*lines, ("wide is, times", *wider, "", "at most 1.3")),
    )


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
