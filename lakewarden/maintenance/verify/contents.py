"""What an object's bytes show of a user: each function returns the text of a finding, empty for none."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote

from lakewarden.maintenance.verify import formats

_ESCAPE = re.compile(rb"!([0-9a-f]{2})")
_VALUE = re.compile(r"\{(namespace|tableName|shard|userId)\}")


# Finds the user that a path names: decodes ids in paths, and matches templates against keys.


@dataclass(frozen=True)
class Whose:
    """A key parsed by its table's template: `user` as spelled in the path, `rest` within that scope."""

    user: str
    rest: str


def stands_for(segment: str, value: str) -> bool:
    """Whether a path segment is the encoding of this value."""
    data = value.encode()
    if "!!" in segment:
        return segment.endswith(f"!!{hashlib.sha256(data).hexdigest()}")
    return segment == value or _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), segment.encode()) == data


def match(template: str, namespace: str, table: str, key: str) -> Whose | None:
    """Parses a key by a storage's template; None where the key is not this table's."""
    parts, wanted = key.split("/"), template.split("/")
    user = ""
    if len(parts) < len(wanted):
        return None
    for part, pattern in zip(parts, wanted, strict=False):
        holder = _VALUE.search(pattern)
        if holder is None:
            if part != pattern:
                return None
            continue
        before, after = pattern[: holder.start()], pattern[holder.end() :]
        if not (part.startswith(before) and part.endswith(after) and len(part) > len(before) + len(after)):
            return None
        value = part[len(before) : len(part) - len(after)]
        if holder[1] == "namespace" and not stands_for(value, namespace):
            return None
        if holder[1] == "tableName" and not stands_for(value, table):
            return None
        user = value if holder[1] == "userId" else user
    return Whose(user, "/".join(parts[len(wanted) :]))


def within(template: str, namespace: str, table: str, key: str) -> list[str] | None:
    """The directories of a key below its table's, None where it is not below it."""
    head = template.split("/")
    depth = next((at for at, part in enumerate(head) if "{shard}" in part or "{userId}" in part), len(head))
    if depth and match("/".join(head[:depth]), namespace, table, key) is None:
        return None
    return key.split("/")[depth:-1]


_UNFINISHED = "rows of the user in an unfinished write; an erasure removes it after a day, or after the machine was restarted"


_OF_THE_USER = {"tags": "a tag of the user", "leases": "a reader's pin on the user's scope", "live": "a subscription of the user"}


def named_in_state(room: str, data: bytes, user: str) -> str:
    """Checks an object of the warehouse's own state; `room` is the first part of its key."""
    if user in (formats.log_users(data) or ()):
        return _UNFINISHED if room == ".tmp" else "rows of the user in the write log"
    said = formats.parsed(data)
    match room:
        case "log" if isinstance(settled := formats.field(said, "settled"), dict) and user in settled:
            return "a cut of the write log that marks the user by name"
        case "tags" | "leases" | "live" if formats.field(said, "user") == user:
            return _OF_THE_USER[room]
        case "scopes" if user in _listed(said) or any(user in _listed(formats.parsed(line)) for line in data.split(b"\n")[1:]):
            return "the user in the list of a table's scopes"
        case "jobs" if _job_names(said, user):
            return "a job that names the user"
        case "audit" if user in (formats.field(said, "actor_user_id"), formats.field(said, "subject_user_id")):
            return "an entry of the audit log that names the user"
        case "fleet" if user in _values(said):
            return "kept figures of a table that name the user"
    return ""


def named_in_survey(data: bytes, user: str) -> str:
    """Checks what is kept of a survey."""
    return "a survey's path that names the user" if any(_is_in_paths(text, user) for text in formats.surveyed(data)) else ""


def named_in_plan(data: bytes, user: str, tables: Collection[str] | None) -> str:
    """Checks the lines of a plan: whether one is about the user in one of the tables, or its head requests only those.

    Args:
        tables: those that the user was erased from, as `namespace.name`; all where it is None.
    """
    for line in map(formats.parsed, data.split(b"\n")):
        head = formats.field(line, "request")
        named = _texts(formats.field(head, "tables"))
        mine = formats.field(line, "user") == user and (tables is None or formats.field(line, "table") in tables)
        if mine or (formats.field(head, "user") == user and (tables is None or (named and set(named) <= set(tables)))):
            return "a plan that names the user"
    return ""


def named_in_data(data: bytes, user: str, tables: Collection[str]) -> str:
    """Checks any other object; `tables` as `namespace.name`."""
    if user in (formats.log_users(data) or ()):
        return "a copy of the write log with rows of the user"
    footer = formats.footer(data) or {}
    if footer.get("lakewarden.user") == user and footer.get("lakewarden.table") in tables:
        return "its footer names the user"
    said = formats.parsed(data) if data[:1] == b"{" else None
    table = str(formats.field(said, "table_id")).replace(":", ".", 1)
    if formats.field(said, "user_id") == user and table in tables:
        return "a manifest of the user's scope"
    return "an export of the user" if formats.field(said, "exported_user") == user else ""


def _values(said: object) -> set[str]:
    """Every text in an object that is not a name of a field, with the jobs that are named as `recent`."""
    match said:
        case str():
            return {said}
        case list():
            return set().union(*map(_values, said))
        case dict():
            recent = formats.field(said, "recent")
            return set(recent if isinstance(recent, dict) else ()).union(*map(_values, said.values()))
    return set()


def _is_in_paths(text: str, user: str) -> bool:
    """Whether a text says the id as a word, or a part of a path in it stands for the id."""
    if re.search(rf"(?<![0-9A-Za-z_]){re.escape(user)}(?![0-9A-Za-z_])", text):
        return True
    paths = (word for word in re.split(r"[\s'\",;()]+", text) if "/" in word)
    parts = (part for path in paths for part in path.split("/"))
    return any(stands_for(each, user) or unquote(each) == user for part in parts for each in (part, part.rpartition("=")[2]))


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _listed(said: object) -> list[object]:
    """The users of a list of scopes: of an entry, or of what entries were folded into."""
    users = formats.field(said, "users") if isinstance(said, dict) else said
    return users if isinstance(users, list) else []


def _job_names(job: object, user: str) -> bool:
    named = formats.field(formats.field(job, "parameters"), "user")
    return named == user or f"[{user}]" in str(formats.field(job, "message"))
