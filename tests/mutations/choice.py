"""Which mutations a run tries: by parts of their names, by a share of all, or by what has changed since a commit."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tomllib import TOMLDecodeError

import msgspec

from tests.mutations.listed import LISTS, Mutation, parsed


@dataclass(frozen=True)
class Part:
    """One of several parts of the list. Names decide, so that a mutation stays in its part while others come and go."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Part:
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise argparse.ArgumentTypeError(f"a part is written as 1/7, up to 7/7, and this is {text!r}")
        return cls(int(number), int(of))

    def has(self, mutation: Mutation) -> bool:
        return int.from_bytes(sha256(mutation.name.encode()).digest()[:8]) % self.of == self.number - 1


@dataclass(frozen=True)
class Choice:
    """All that is given must hold."""

    words: Sequence[str] = ()
    """Parts of names, modules or definitions; one of them is enough."""
    part: Part | None = None
    since: str | None = None
    """A commit: those whose module, tests or own lines differ from it in the working tree."""

    def among(self, every: Sequence[Mutation], root: Path) -> list[Mutation]:
        """Raises CalledProcessError where git does not know the commit."""
        difference = _Difference.since(self.since, root) if self.since else None
        return [each for each in every if self._names(each) and (difference is None or difference.has(each, root))]

    def _names(self, mutation: Mutation) -> bool:
        text = f"{mutation.name} {mutation.module} {mutation.module.replace('.', '/')}.py {mutation.at}"
        return (not self.words or any(word in text for word in self.words)) and (self.part is None or self.part.has(mutation))


@dataclass(frozen=True)
class _Difference:
    files: frozenset[str]
    before: tuple[Mutation, ...]
    """The list as the commit has it."""

    @classmethod
    def since(cls, commit: str, root: Path) -> _Difference:
        differing = _git(root, "diff", "--name-only", "--relative", commit)
        unknown = _git(root, "ls-files", "--others", "--exclude-standard")
        return cls(frozenset((differing + unknown).splitlines()), tuple(_listed_at(commit, root)))

    def has(self, mutation: Mutation, root: Path) -> bool:
        files = {str(mutation.file(root).relative_to(root)), *(test.split("::")[0] for test in mutation.tests)}
        return mutation not in self.before or not files.isdisjoint(self.files)


def _listed_at(commit: str, root: Path) -> Iterator[Mutation]:
    """A file of the list that this program does not read, for its form was another, has none of today's."""
    folder = LISTS.relative_to(LISTS.parents[1])
    for path in _git(root, "ls-tree", "--name-only", commit, f"{folder}/").splitlines():
        if path.endswith(".toml"):
            try:
                yield from parsed(_git(root, "show", f"{commit}:{path}"))
            except (msgspec.ValidationError, TOMLDecodeError):
                continue


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout
