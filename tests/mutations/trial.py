"""Trying mutations on copies of the tree, so that neither the tree nor another trial is disturbed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.mutations.listed import Mutation, NoSinglePlace

_COPIED = ("lakewarden", "tests", "pyproject.toml")
"""What a trial may change, or is found by its place; the rest of the tree is linked."""

_SECONDS_A_TEST = 60
_SECONDS_A_TRIAL = 180
_SECONDS_UNCHANGED = 1800

_PYTEST = ("-m", "pytest", "-m", "not night", "-p", "no:cacheprovider", "-p", "no:xdist")
"""The gate has to find every mutation by itself."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py(?:::\w+)*)", re.MULTILINE)


class Outcome(Enum):
    SEEN = "seen"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"
    """Not a verdict: the text is not there once, or pytest could not run the tests."""


@dataclass(frozen=True)
class Verdict:
    """`told`: the test that failed, or what went wrong."""

    outcome: Outcome
    told: str = ""


class Copy:
    """A copy of the tree, in which one trial runs at a time."""

    def __init__(self, tree: Path, place: Path) -> None:
        self._root = place / "tree"
        self._scratch = place / "tmp"
        self._root.mkdir()
        for path in tree.iterdir():
            if path.name not in _COPIED:
                (self._root / path.name).symlink_to(path)
            elif path.is_dir():
                shutil.copytree(path, self._root / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, self._root)
        # Compared by their source: a changed file of the same size in the same second would pass for the old one.
        self._run(["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *_COPIED[:2]], _SECONDS_A_TRIAL)
        where = self._run(["-c", "import lakewarden; print(lakewarden.__path__[0])"], _SECONDS_A_TEST).stdout.strip()
        if where != str(self._root / "lakewarden"):
            raise RuntimeError(f"the copy imports lakewarden from {where}: no mutation would be seen")

    def try_out(self, mutation: Mutation) -> Verdict:
        """Whether one of the mutation's tests fails with it."""
        path = mutation.file(self._root)
        before = path.read_text()
        try:
            path.write_text(mutation.applied(before))
        except NoSinglePlace as error:
            return Verdict(Outcome.BROKEN, str(error))
        try:
            return self._tested(mutation.tests, _SECONDS_A_TRIAL)
        finally:
            path.write_text(before)

    def unchanged(self, tests: Sequence[str]) -> Verdict:
        """What becomes of all tests of the list without a mutation."""
        return self._tested(tests, _SECONDS_UNCHANGED)

    def _tested(self, tests: Sequence[str], seconds: float) -> Verdict:
        """The tests, up to the first that fails."""
        arguments = ["-x", "-q", "-rfE", "--no-header", "--tb=no", f"--timeout={_SECONDS_A_TEST}", f"--basetemp={self._scratch}"]
        try:
            done = self._run([*_PYTEST, *arguments, *tests], seconds)
        except subprocess.TimeoutExpired:
            return Verdict(Outcome.SEEN, f"{tests[0]} (it did not end)")
        failed = _FAILED.search(done.stdout)
        if done.returncode == 0:
            return Verdict(Outcome.SURVIVED)
        if done.returncode == 1 and (failed or "Timeout" in done.stderr):
            return Verdict(Outcome.SEEN, failed[1] if failed else f"{tests[0]} (it did not end)")
        return Verdict(Outcome.BROKEN, f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")

    def _run(self, arguments: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
        """A program in the copy, with all that it starts: what still runs at its end is killed.

        PYTHONPATH goes before the tree that is installed for editing, in children too.
        """
        environment = os.environ | {
            "PYTHONPATH": str(self._root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_PROFILE": "ci",
            "LAKEWARDEN_REQUIRE": "",
        }
        if "compileall" in arguments:
            del environment["PYTHONDONTWRITEBYTECODE"]
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self._root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=seconds)
            finally:
                _kill_group(process.pid)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
