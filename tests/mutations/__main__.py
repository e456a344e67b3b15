"""Tries the mutations of the list and fails if one survives: `python -m tests.mutations`, or some by a part of their names."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.mutations.cache import Cache
from tests.mutations.choice import Choice, Part
from tests.mutations.listed import ROOT, Mutation, mutations
from tests.mutations.trial import Copy, Outcome, Verdict

CACHE = ROOT / ".cache" / "mutations.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.mutations", description=__doc__)
    parser.add_argument("words", nargs="*", help="try those alone whose name, module or definition has one of these")
    parser.add_argument("--part", type=Part.parse, metavar="K/N", help="try one part of the list, chosen by the names")
    parser.add_argument("--changed", metavar="COMMIT", help="try those whose module, tests or own lines changed since")
    parser.add_argument("--fresh", action="store_true", help="try also what was seen before, with the same code and tests")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="copies at work at once")
    options = parser.parse_args()
    chosen = Choice(options.words, options.part, options.changed).among(mutations(), ROOT)
    cache, began = Cache(CACHE), time.monotonic()
    untried = [each for each in chosen if options.fresh or each.digest(ROOT) not in cache]
    wrong = try_all(untried, cache, options.workers) if untried else 0
    before = f", {len(chosen) - len(untried)} of them seen before" if len(untried) < len(chosen) else ""
    _say(f"{len(chosen)} mutations{before}, {wrong} wrong, {time.monotonic() - began:.0f} seconds")
    return 1 if wrong else 0


def try_all(chosen: Sequence[Mutation], cache: Cache, workers: int) -> int:
    """How many are not as the list says; all of them where the tests fail without any."""
    wrong, digests = 0, {each.name: each.digest(ROOT) for each in chosen}
    with ExitStack() as stack, ThreadPoolExecutor(workers) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for _ in range(workers):
            copies.put(Copy(ROOT, Path(stack.enter_context(TemporaryDirectory(prefix="mutate-")))))
        if not _passes_unchanged(pool, copies, chosen, workers):
            return len(chosen)
        for number, (mutation, verdict) in enumerate(_tried(pool, copies, chosen), 1):
            sound = is_sound(mutation, verdict)
            wrong += not sound
            _say(f"{number}/{len(chosen)} {'' if sound else 'WRONG '}{verdict.outcome.value}: {mutation.name} ({verdict.told})")
            if sound:
                cache.add(digests[mutation.name], verdict.told)
    return wrong


def is_sound(mutation: Mutation, verdict: Verdict) -> bool:
    """A test sees it; or none does, and the list says why. An excuse that does not hold any more is as wrong."""
    return verdict.outcome is (Outcome.SURVIVED if mutation.excused else Outcome.SEEN)


def _passes_unchanged(pool: ThreadPoolExecutor, copies: SimpleQueue[Copy], chosen: Sequence[Mutation], workers: int) -> bool:
    """A test that fails anyway sees nothing. Files are shared out, so that each state that a file's tests share is made once."""
    tests = sorted({test for mutation in chosen for test in mutation.tests})
    files = sorted({test.split("::")[0] for test in tests})
    shares = [
        [test for test in tests if test.split("::")[0] in files[first::workers]] for first in range(min(workers, len(files)))
    ]

    def unchanged(share: Sequence[str]) -> Verdict:
        copy = copies.get()
        try:
            return copy.unchanged(share)
        finally:
            copies.put(copy)

    failed = [verdict for verdict in pool.map(unchanged, shares) if verdict.outcome is not Outcome.SURVIVED]
    for verdict in failed:
        _say(f"without any mutation the tests fail already: {verdict.told}")
    return not failed


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
