"""Tries every mutation of the list and fails if one survives: `python -m tests.mutations`, or some by a part of their names."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

import msgspec

from tests.mutations.listed import RESULTS, ROOT, Mutation, Result, mutations, results
from tests.mutations.trial import Copy, Outcome, Verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.mutations", description=__doc__)
    parser.add_argument("parts", nargs="*", help="try those alone whose name or file has one of these parts")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="copies at work at once")
    asked = parser.parse_args()
    every = mutations()
    chosen = [each for each in every if not asked.parts or any(part in f"{each.name} {each.file}" for part in asked.parts)]
    began, wrong = time.monotonic(), 0
    found = results()
    with ExitStack() as stack, ThreadPoolExecutor(asked.workers) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for _ in range(asked.workers):
            copies.put(Copy(ROOT, Path(stack.enter_context(TemporaryDirectory(prefix="mutate-")))))
        if not _passes_unchanged(copies, chosen):
            return 1
        for number, (mutation, verdict) in enumerate(_tried(pool, copies, chosen), 1):
            sound = is_sound(mutation, verdict)
            wrong += not sound
            _say(f"{number}/{len(chosen)} {'' if sound else 'WRONG '}{verdict.outcome.value}: {mutation.name} ({verdict.told})")
            found[mutation.name] = Result(mutation.digest, verdict.told if verdict.outcome is Outcome.SEEN else "")
    names = {each.name for each in every}
    kept = {name: found[name] for name in sorted(found) if name in names}
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
    _say(f"{len(chosen)} mutations, {wrong} wrong, {time.monotonic() - began:.0f} seconds")
    return 1 if wrong else 0


def is_sound(mutation: Mutation, verdict: Verdict) -> bool:
    """A test sees it; or none does, and the list says why. An excuse that does not hold any more is as wrong."""
    return verdict.outcome is (Outcome.SURVIVED if mutation.excused else Outcome.SEEN)


def _passes_unchanged(copies: SimpleQueue[Copy], chosen: Sequence[Mutation]) -> bool:
    """A test that fails anyway sees nothing."""
    copy = copies.get()
    verdict = copy.unchanged(sorted({test for mutation in chosen for test in mutation.tests}))
    copies.put(copy)
    if verdict.outcome is not Outcome.SURVIVED:
        _say(f"without any mutation the tests fail already: {verdict.told}")
    return verdict.outcome is Outcome.SURVIVED


def _tried(pool: ThreadPoolExecutor, copies: SimpleQueue[Copy], chosen: Sequence[Mutation]) -> Iterator[tuple[Mutation, Verdict]]:
    def try_out(mutation: Mutation) -> tuple[Mutation, Verdict]:
        copy = copies.get()
        try:
            return mutation, copy.try_out(mutation)
        finally:
            copies.put(copy)

    return pool.map(try_out, chosen)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
