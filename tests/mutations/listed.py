"""The list of mutations: small faults in the code, each with the tests that have to see it. Kept as data, a file a room."""

from __future__ import annotations

import tomllib
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
LISTS = Path(__file__).parent
RESULTS = LISTS / "results.json"
"""What the last run of `make mutate` found; written by it."""


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One fault. `old` stands exactly once in `file` and is replaced by `new`."""

    name: str
    rule: str
    """The rule that the fault breaks, in one sentence."""
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Ids for pytest: files or single tests, relative to the root of the tree. One that fails is enough."""
    excused: str = ""
    """Why no test can see it; empty where one does."""

    @cached_property
    def digest(self) -> str:
        """Tells the fault and its tests apart from what they were before a change."""
        return sha256("\0".join([self.file, self.old, self.new, *self.tests]).encode()).hexdigest()[:16]

    def found(self, root: Path) -> int:
        """How often the old text stands in the file below `root`."""
        path = root / self.file
        return path.read_text().count(self.old) if path.is_file() else 0


class Result(msgspec.Struct, frozen=True):
    """What became of a mutation. `seen_by` is the test that failed; empty where none did."""

    digest: str
    seen_by: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    mutation: list[Mutation]


def mutations(lists: Path = LISTS) -> list[Mutation]:
    """All of the list, in the order of its files."""
    files = [msgspec.convert(tomllib.loads(path.read_text()), _File) for path in sorted(lists.glob("*.toml"))]
    return [mutation for file in files for mutation in file.mutation]


def results() -> dict[str, Result]:
    """By the mutations' names."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=dict[str, Result]) if RESULTS.exists() else {}
