"""A warehouse of a few users whose every value is a text that nobody could guess, and the search for it in all they are told."""

from __future__ import annotations

import json
import logging
import random
import re
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from lakewarden import Lakehouse
from lakewarden.errors import LakewardenError
from lakewarden.sql.session import SqlSession
from tests.sql.isolation.grammar import Grammar
from tests.sql.isolation.places import ACCESS, LEVELS, Home, Own, Person, Shared, may_see

_TOKEN = re.compile(r"(?:tk|id)[0-9a-f]{16}")
_MAY_KNOW_OTHERS = ("service", "dba", "system")
"""To whom ids of others are no secret: who may maintain every scope is told which they are. Values are, to everybody."""

_NOTES = "k TEXT PRIMARY KEY, v TEXT, n INT, data JSON, raw BYTES, photo FILE"
_TABLES = "; ".join(
    [
        "CREATE NAMESPACE app",
        f"CREATE USER TABLE app.notes ({_NOTES})",
        "CREATE STREAM TABLE app.feed (k TEXT, v TEXT) WITH (TTL_SECONDS = 3600)",
        *(f"CREATE SHARED TABLE app.{name} (k TEXT PRIMARY KEY, v TEXT) WITH (ACCESS_LEVEL = {ACCESS[name]})" for name in LEVELS),
        "CREATE VIEW app.mine AS SELECT * FROM app.notes",
        "CREATE VIEW app.pair AS SELECT k, v FROM app.notes UNION ALL SELECT k, v FROM app.private",
    ]
)


class Leak(AssertionError):
    """Somebody was told what is another's."""


class World:
    """Users with rows in every kind of table, some flushed and some hot, and what is known of where each text lies."""

    def __init__(self, lake: Lakehouse, roles: Sequence[str], chance: random.Random) -> None:
        self.lake = lake
        self.homes: dict[str, Home] = {}
        self.roles: dict[str, str]
        """What the catalog says; one that it does not know counts as an ordinary user."""
        self.answers = 0
        """Answers in which somebody was told a text that is their own: the search looks at something."""
        self._chance = chance
        self.people = [Person(self._text("id"), role) for role in roles]
        self.roles = {one.user: "user" if one.role == "anonymous" else one.role for one in self.people}
        self._sessions = {person: lake.session(user=person.user, role=person.role) for person in self.people}
        self._fill()

    def _text(self, kind: str) -> str:
        return f"{kind}{self._chance.getrandbits(64):016x}"

    def new_token(self, home: Home) -> str:
        token = self._text("tk")
        self.homes[token] = home
        return token

    def session(self, person: Person) -> SqlSession:
        return self._sessions[person]

    def grammar(self, person: Person, chance: random.Random) -> Grammar:
        return Grammar(chance, person.user, list(self.roles), self.lake.warehouse.uri, self.new_token)

    def reseed(self, seed: int) -> random.Random:
        """The randomness of one step: it is the same whatever steps went before."""
        self._chance = random.Random(seed)
        return random.Random(seed)

    def told(self, person: Person, answers: Iterable[object], said: str = "", impersonated: Collection[str] = ()) -> None:
        """Searches what a person was told, who had said this themselves.

        Raises:
            Leak: something in it is another's.
        """
        text = "\n".join(map(_rendered, answers)).lower()
        for found in set(_TOKEN.findall(text)):
            if found in said or self._may_know(person, found, impersonated):
                self.answers += found not in said
                continue
            place = text.index(found)
            raise Leak(
                f"{person} was told {found} of {self.homes.get(found, found)}: …{text[max(place - 300, 0) : place + 100]}…"
            )

    def _may_know(self, person: Person, found: str, impersonated: Collection[str]) -> bool:
        if found.startswith("id"):
            return person.role in _MAY_KNOW_OTHERS or found == person.user or found in impersonated
        return found in self.homes and may_see(person, self.homes[found], impersonated, self.roles)

    def owner(self, user: str) -> Person:
        """Who reads a scope as its owner."""
        return Person(user, self.roles.get(user, "user"))  # whoever wrote as somebody whom the catalog does not know

    def check_disk(self) -> None:
        """Every scope's files, and every export's, hold their owner's texts alone: whoever opens them is told no more.

        Raises:
            Leak: another's text is in them.
        """
        root = Path(self.lake.warehouse.uri)
        for user in self.roles:
            scope = root / "data" / "app" / "notes" / user
            self.told(self.owner(user), _contents(scope.rglob("*")))
        for begun in root.glob("exports/*/export.json"):
            user = json.loads(begun.read_text())["exported_user"]
            self.told(self.owner(user), _contents(begun.parent.rglob("*")))

    def _fill(self) -> None:
        lake = self.lake
        lake.sql(_TABLES)
        known = "; ".join(
            f"CREATE USER {one.user} WITH INTERNAL ROLE {one.role}" for one in self.people if one.role != "anonymous"
        )
        lake.sql(known)
        for number in range(2):
            for level in LEVELS:
                rows = [{"k": self.new_token(Shared(level)), "v": self.new_token(Shared(level))}]
                lake.table(f"app.{level}").write(rows)
            for person in self.people:
                self.write(person.user)
            if not number:
                lake.flush()

    def write(self, user: str) -> None:
        """Rows in each table that has scopes, and a file."""

        def new() -> str:
            return self.new_token(Own(user))

        row = {"k": new(), "v": new(), "n": 1, "data": f'{{"a": "{new()}"}}', "raw": new().encode()}
        notes = self.lake.table("app.notes")
        notes.write([row, {"k": "a", "v": new()}], user=user)
        notes.put_file({"k": "f", "v": new()}, "photo", new().encode(), name=f"{new()}.png", user=user)
        self.lake.table("app.feed").write([{"k": new(), "v": new()}], user=user)


def refused(error: LakewardenError) -> str:
    """All that an error tells: with what caused it, as a log would have it."""
    return "".join(traceback.format_exception(error)) + error.message


@contextmanager
def logged(name: str | None = None) -> Iterator[list[str]]:
    """What this logger and those below it log meanwhile, at every level; by default all of them."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    logger, handler = logging.getLogger(name), Keep(logging.NOTSET)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(1)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _rendered(answer: object) -> str:
    """Bytes as the text that they are."""
    if isinstance(answer, bytes):
        return answer.decode(errors="replace")
    if isinstance(answer, dict):
        return " ".join(f"{_rendered(key)} {_rendered(value)}" for key, value in answer.items())
    if isinstance(answer, (list, tuple)):
        return " ".join(map(_rendered, answer))
    return str(answer)


def _contents(paths: Iterable[Path]) -> Iterator[object]:
    for path in paths:
        if path.suffix == ".parquet" and "_delta_log" not in path.parts:
            yield pq.read_table(path).to_pylist()
        elif path.is_file():
            yield path.read_bytes()
