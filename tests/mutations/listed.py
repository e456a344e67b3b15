"""The list of mutations: small faults in the code, each with the tests that have to see it. Kept as data, a file a room."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import msgspec

from tests.mutations.place import Source

ROOT = Path(__file__).parents[2]
LISTS = Path(__file__).parent


class NoSinglePlace(Exception):
    """The code has no text, or several, that a mutation could change: the list must follow the code."""


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault. The place of the module that reads as `find` is replaced by `replace`."""

    name: str
    rule: str
    """The rule that the fault breaks, in one sentence."""
    module: str
    at: str
    """The definition that has the text: `function`, `Class.method`, `Class`, a constant, or `<module>`."""
    find: str
    """Stands once in the definition. Layout and comments do not count (`tests/mutations/place.py`)."""
    replace: str
    tests: tuple[str, ...]
    """Ids for pytest: files or single tests, relative to the root of the tree. One that fails is enough."""
    excused: str = ""
    """Why no test can see it; empty where one does."""

    def file(self, root: Path) -> Path:
        path = root.joinpath(*self.module.split("."))
        package = path / "__init__.py"  # a directory alone may be what a package left, with caches in it
        return package if package.exists() else path.with_suffix(".py")

    def applied(self, text: str) -> str:
        """The module's text with the fault. Raises NoSinglePlace."""
        source = _source(text)
        if self.at not in source.definitions:
            raise NoSinglePlace(f"{self.module} defines no {self.at}")
        spans = source.spans(self.at, self.find)
        if len(spans) != 1:
            raise NoSinglePlace(f"{self.find!r} stands {len(spans)} times in {self.at} of {self.module}")
        return source.replaced(spans[0], self.replace)

    def digest(self, root: Path) -> str:
        """Tells the fault, its module and the files of its tests apart from what they were before a change."""
        own = msgspec.json.encode((self.module, self.at, self.find, self.replace, self.tests))
        files = [self.file(root), *(root / test.split("::")[0] for test in self.tests)]
        return sha256(b"\0".join([own, *(path.read_bytes() for path in files)])).hexdigest()


@lru_cache(maxsize=64)
def _source(text: str) -> Source:
    return Source(text)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    mutation: list[Mutation]


def parsed(text: str) -> list[Mutation]:
    """Those of one file of the list."""
    return msgspec.convert(tomllib.loads(text), _File).mutation


def mutations(lists: Path = LISTS) -> list[Mutation]:
    """All of the list, in the order of its files."""
    return [mutation for path in sorted(lists.glob("*.toml")) for mutation in parsed(path.read_text())]
