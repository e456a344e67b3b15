"""`python -m benchmarks.pairs --old DIR [write|flush|object_store …]`: an old commit and this one, side by side.

DIR holds the old commit with its own `.venv`. Both sides do the same rounds in pairs, now this one first and now the other,
so that a busy moment of the machine affects both. A regression is a ratio whose 95 % interval is above the bound. Requests to
an object store are compared exactly.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.measuring.page import Section, Table, rewrite
from benchmarks.measuring.ratio import BOUND, ratio
from tests.fixtures.minio import MinioServer, serve_minio
from tests.fixtures.proxy import Proxy, proxy_of

ENOUGH = 7
"""Pairs; only as many go into the page."""

_NEW = Path(__file__).parent.parent
_PAGE = _NEW / "docs" / "performance.md"
_MEASURED = {
    "write": ("appends", "bulk"),
    "insert": ("inserts of many rows at once", "inserts of a row beside many"),
    "flush": ("first flush", "flush", "flush on Spark"),
    "growth": ("few of many",),
    "maintenance": ("optimize", "vacuum (dry run)", "restore (dry run)"),
    "query": ("point look-up", "count", "aggregate"),
    "serve": ("HTTP writes", "keyed HTTP writes"),
    "object_store": ("first flush", "flush", "flush of many on Spark"),
}
_COUNTED = (1, 5)
"""Scopes of a flush whose requests are counted; the difference is what a scope takes."""
_WARM_UP = 4
"""Flushes before the first that is counted: as many as there are from one checkpoint to the next."""
_FLUSHES = 16


@dataclass(frozen=True)
class Requests:
    """Of a number of flushes, with one scope and with several."""

    one: int
    several: int

    @property
    def a_scope(self) -> float:
        return (self.several - self.one) / (_COUNTED[1] - _COUNTED[0]) / _FLUSHES

    @property
    def a_job(self) -> float:
        return self.one / _FLUSHES - self.a_scope


@dataclass(frozen=True)
class Side:
    """A process of one commit that measures on request."""

    process: subprocess.Popen[str]

    def seconds(self, what: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("took "):
                return float(line.removeprefix("took "))
        raise RuntimeError(f"a side ended while it measured {what!r}")


@contextmanager
def side(root: Path, place: str, size: str, environment: Mapping[str, str]) -> Iterator[Side]:
    """Starts a side with its own interpreter and packages, and this commit's benchmarks; it ends with its input."""
    command = [str(root / ".venv" / "bin" / "python"), "-P", "-m", "benchmarks.side", place, size]
    with tempfile.TemporaryDirectory() as ours:
        (Path(ours) / "benchmarks").symlink_to(_NEW / "benchmarks")
        given = os.environ | environment | {"PYTHONPATH": f"{ours}{os.pathsep}{root}"}
        with subprocess.Popen(command, cwd=root, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield Side(process)


def paired(sides: tuple[Side, Side], what: str, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of the old side and of the new one, after a pair that warms up."""
    old, new = sides
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for which, each in ((0, old), (1, new)) if turn % 2 else ((1, new), (0, old)):
            taken[which].append(each.seconds(what))
    return taken[0][1:], taken[1][1:]


def requests(one: Side, proxy: Proxy) -> Requests:
    """Counts them in the steady state, over whole cycles from checkpoint to checkpoint."""
    return Requests(*(_asked(one, proxy, scopes) for scopes in _COUNTED))


def _asked(one: Side, proxy: Proxy, scopes: int) -> int:
    what, found = f"counted:{scopes}", []
    for _ in range(1 + _WARM_UP + _FLUSHES):
        one.seconds(what)
        proxy.taken()
        one.seconds(what)
        found.append(len(proxy.taken()))
    return sum(found[-_FLUSHES:])


def compare(names: Sequence[str], old: Path, rounds: int, size: str, place: Path) -> list[Table]:
    """The table of seconds, and that of requests where an object store is among the names."""
    lines: list[tuple[str, ...]] = []
    tables: list[Table] = []
    for name in (name for name in names if name != "object_store"):
        lines += _lines(name, (old, _NEW), str(place), {}, rounds, size)
    if "object_store" in names:
        with serve_minio() as server:
            lines += _lines("object_store", (old, _NEW), "s3://lake", server.environment, rounds, size)
            tables.append(_requests_table(_counted(old, "old", size, server), _counted(_NEW, "new", size, server)))
    said = (
        f"{rounds} pairs each, this commit and {commit_of(old)} in turns; medians, and the ratio's geometric mean with its 95 %"
        f" interval. A regression is an interval above {BOUND}."
    )
    return [Table(said, ("what", "old", "new", "new is, times", "so it is"), lines), *tables]


def _lines(
    name: str, roots: tuple[Path, Path], place: str, environment: Mapping[str, str], rounds: int, size: str
) -> Iterator[tuple[str, ...]]:
    with (
        side(roots[0], f"{place}/old", size, environment) as old,
        side(roots[1], f"{place}/new", size, environment) as new,
    ):
        for what in _MEASURED[name]:
            before, after = paired((old, new), what, rounds)
            found = ratio(before, after)
            yield (f"{name}: {what}", f"{median(before):.3f} s", f"{median(after):.3f} s", str(found), found.verdict)


def _counted(root: Path, label: str, size: str, server: MinioServer) -> Requests:
    with proxy_of(server.endpoint) as proxy:
        environment = server.environment | {"AWS_ENDPOINT_URL": proxy.endpoint}
        with side(root, f"s3://lake/{label}-counted", size, environment) as one:
            return requests(one, proxy)


def _requests_table(old: Requests, new: Requests) -> Table:
    allowed: Sequence[tuple[str, Callable[[Requests], float], int]] = (
        ("a job", lambda found: found.a_job, 2),
        ("a scope", lambda found: found.a_scope, 0),
    )
    lines = [
        (what, f"{of(old):.2f}", f"{of(new):.2f}", f"{of(new) - of(old):+.2f}", f"{most:+d}", _within(of(new) - of(old), most))
        for what, of, most in allowed
    ]
    said = (
        f"Requests on MinIO, the mean of {_FLUSHES} flushes in the steady state that only append, by one process, counted with"
        f" {_COUNTED[0]} and with {_COUNTED[1]} scopes."
    )
    return Table(said, ("of", "old", "new", "more", "allowed", "so it is"), lines)


def _within(more: float, most: int) -> str:
    return "within the bound" if more <= most else "too many"


def commit_of(root: Path) -> str:
    done = subprocess.run(["git", "-C", str(root), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*_MEASURED, []], help="what to compare; all where none is named")
    parser.add_argument("--old", type=Path, required=True, help="a worktree of the old commit, with its .venv")
    parser.add_argument("--rounds", type=int, default=ENOUGH, help=f"pairs; from {ENOUGH} on they go into docs/performance.md")
    parser.add_argument("--size", choices=["full", "tiny"], default="full")
    parser.add_argument("--place", type=Path, help="directory for the data, on the disk that is to be measured; removed again")
    given = parser.parse_args(arguments)
    if given.rounds < 2:
        parser.error("an interval wants two pairs at least")
    names = given.names or list(_MEASURED)
    section = Section("pairs", given.size)  # before the work, which would be part of the load
    with tempfile.TemporaryDirectory(prefix="lakewarden-pairs-", dir=given.place) as place:
        section.tables.extend(compare(names, given.old.resolve(), given.rounds, given.size, Path(place)))
    now = datetime.now(UTC)
    print(section.text(now))
    if given.rounds >= ENOUGH and given.size == "full":
        rewrite(_PAGE, section, now)


if __name__ == "__main__":
    main()
