"""Processor time and memory of this process and of all that it started: Spark's JVM, and the Python workers below it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

from benchmarks.measuring.memory import peak_bytes
from benchmarks.measuring.timing import quiet_seconds

P = ParamSpec("P")


@dataclass(frozen=True)
class Member:
    """A process; its own ticks of the processor, and those of its children that ended and were waited for."""

    pid: int
    parent: int
    is_jvm: bool
    own: int
    waited: int


@dataclass(frozen=True)
class Cost:
    """What a call took: seconds, seconds of the processors in the whole family, and the highest memory meanwhile in MiB, of the
    Python processes and of the JVM apart."""

    seconds: float
    processor: float
    python_mib: float
    jvm_mib: float


def seconds_and_processor(work: Callable[P, object], *given: P.args, **named: P.kwargs) -> tuple[float, float]:
    """How long the call takes, after a sync, and the processor time of the whole family meanwhile."""
    before = list(_family())
    taken = quiet_seconds(work, *given, **named)
    return taken, ticks_between(before, list(_family())) / os.sysconf("SC_CLK_TCK")


def cost(work: Callable[P, object], *given: P.args, **named: P.kwargs) -> Cost:
    """The call's cost, after a sync."""
    _forget_peaks()
    taken, processor = seconds_and_processor(work, *given, **named)
    return Cost(taken, processor, _peak_mib(jvm=False), _peak_mib(jvm=True))


def ticks_between(before: Iterable[Member], after: Iterable[Member]) -> int:
    """What the family used of the processor meanwhile.

    Of one that ended it counts only if its parent waited for it: the JVM does not for all of its Python workers. The parent's
    number then has what it used before, too, which is taken off.
    """
    then, now = ({member.pid: member for member in members} for members in (before, after))
    known: dict[int, int] = {}
    for member in then.values():
        if member.pid not in now:
            left = member
            while left.pid not in now and left.parent in then:
                left = then[left.parent]
            known[left.pid] = known.get(left.pid, 0) + member.own + member.waited
    nothing = Member(0, 0, is_jvm=False, own=0, waited=0)
    pairs = ((then.get(pid, nothing), member) for pid, member in now.items())
    return sum(new.own - old.own + max(new.waited - old.waited - known.get(new.pid, 0), 0) for old, new in pairs)


def _forget_peaks() -> None:
    """The highest memory counts from here on."""
    for member in _family():
        with suppress(OSError):  # it ended
            Path(f"/proc/{member.pid}/clear_refs").write_text("5", encoding="ascii")


def _peak_mib(*, jvm: bool) -> float:
    """The sum over the processes, which is no less than the highest sum."""
    return sum(peak_bytes(member.pid) for member in _family() if member.is_jvm is jvm) / (1 << 20)


def _family() -> Iterator[Member]:
    parents, members = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                head, _, rest = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
            except OSError:
                continue  # it ended
            fields, pid = rest.split(), int(entry.name)
            parents[pid] = int(fields[1])
            own, waited = (sum(map(int, fields[first : first + 2])) for first in (11, 13))
            members[pid] = Member(pid, parents[pid], head.endswith("(java"), own, waited)
    family = {os.getpid()}
    while found := {child for child, parent in parents.items() if parent in family} - family:
        family |= found
    return (members[pid] for pid in family)
