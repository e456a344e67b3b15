"""Where a text lies, and who may see it there: typed from the seeds, and not asked of the code that is under test."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Level = Literal["open", "private", "restricted", "admins"]

LEVELS: tuple[Level, ...] = ("open", "private", "restricted", "admins")
"""The SHARED tables, by what they are called."""

ACCESS: dict[Level, str] = {"open": "PUBLIC", "private": "PRIVATE", "restricted": "RESTRICTED", "admins": "DBA"}

_STAFF = {"service", "dba", "system"}
_READERS: dict[Level, set[str]] = {
    "open": {"anonymous", "user", *_STAFF},
    "private": _STAFF,
    "restricted": _STAFF,
    "admins": {"dba", "system"},
}
_STANDS_IN_FOR = {
    "anonymous": set[str](),
    "user": set[str](),
    "service": {"service", "user"},
    "dba": {"dba", "service", "user"},
    "system": {"user", "service", "dba", "system"},
}


@dataclass(frozen=True)
class Own:
    """One user's scopes of the USER and STREAM tables."""

    user: str


@dataclass(frozen=True)
class Shared:
    """A SHARED table."""

    level: Level


Home = Own | Shared


@dataclass(frozen=True)
class Person:
    """Who asks. The role is the user's own, in the catalog too."""

    user: str
    role: str


def may_see(person: Person, home: Home, impersonated: Collection[str], roles: dict[str, str]) -> bool:
    """Whether what lies there may be told to someone who took these users' places, as far as the role lets them."""
    match home:
        case Shared():
            return person.role in _READERS[home.level]
        case Own():
            if person.role == "anonymous":
                return False
            stands_in = home.user in impersonated and roles.get(home.user, "user") in _STANDS_IN_FOR[person.role]
            return home.user == person.user or stands_in
