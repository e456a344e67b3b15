"""Pins: a reader's claim on one version of a scope for some time, stored as an object, so that no vacuum removes it.

Only a version inside the retention can be pinned. That makes it safe without a lock: a vacuum that did not see the pin
had started before, with an earlier horizon, and so keeps that version too. (A vacuum that was forced to retain less than
the table does is not bound by that: force is for when there are no readers.)
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from lakewarden.base.clock import NewId
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.states import check_not_frozen
from lakewarden.delta.reading.past import timeline_of
from lakewarden.delta.scope import existing_table
from lakewarden.errors import AlreadyExists, BeingErased, Corrupt, InvalidArgument, NotFound
from lakewarden.log.table_log import TableLog
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

T = TypeVar("T")

# Tags: names of versions, stored as objects, so that no vacuum removes what a name still points at.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Tag:
    """A version of one scope, by name. `user` is None for a SHARED table."""

    name: str
    user: str | None
    version: int


def add_tag(state: ObjectStore, table_id: str, target: ScopeTarget, name: str, version: int | None) -> Tag:
    """Names a version, the newest where none is given.

    Raises:
        InvalidArgument: the name is not 1 to 64 letters, digits, `_`, `.` or `-`.
        NotFound: the scope has no table yet, or the version does not exist.
        AlreadyExists: the scope has a tag of that name.
        Conflict: the scope is being moved, and its newest version stays behind.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"tag {name!r}: 1 to 64 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`")
    table = existing_table(target, version)
    check_not_frozen(table, target)
    timeline = timeline_of(existing_table(target))
    if not timeline.has(table.version):  # it may open anyway, but no vacuum could keep it
        there = f"versions {timeline.oldest} to {timeline.newest} are kept"
        raise NotFound(f"version {table.version} of {target.scope} was removed by a vacuum: {there}")
    tag = Tag(name, target.scope.user, table.version)
    try:
        state.create(_key(table_id, tag), json.dumps({"user": tag.user, "version": tag.version}).encode())
    except AlreadyThere as error:
        raise AlreadyExists(f"{target.scope} already has a tag {name!r}") from error
    return tag


def unless_erased(log: TableLog, mark: str, user: str | None, keep: Callable[[], T], take_back: Callable[[T], None]) -> T:
    """Keeps what has a user's name, and takes it back where an erasure of theirs may have looked for it before.

    Raises:
        BeingErased: the user is being erased, or was meanwhile; and what `keep` raises.
    """
    before = log.signs(mark)
    kept = keep()
    if before.erased_until(log.signs(mark)):
        take_back(kept)
        raise BeingErased(frozenset({user or ""}))
    return kept


def remove_tag(state: ObjectStore, table_id: str, tag: Tag) -> None:
    """Removes a tag that may be gone already."""
    state.delete([_key(table_id, tag)])


def drop_tag(state: ObjectStore, table_id: str, user: str | None, name: str) -> None:
    """Removes a tag; the next vacuum may remove the version.

    Raises:
        NotFound: the scope has no such tag.
    """
    there = {entry.key for entry in state.list(_of_scope(_TAGS, table_id, user))}
    key = f"{_of_scope(_TAGS, table_id, user)}/{name}"
    if key not in there:
        raise NotFound(f"there is no tag {name!r}; there are {', '.join(sorted(k.rpartition('/')[2] for k in there)) or 'none'}")
    state.delete([key])


def tags_of(state: ObjectStore, table_id: str) -> list[Tag]:
    """Every tag of a table."""

    def read(key: str, said: Any) -> Tag:
        return Tag(key.rpartition("/")[2], said["user"], int(said["version"]))

    return list(_read_all(state, _TAGS, table_id, "tag", read))


def tagged_versions(state: ObjectStore, table_id: str) -> Mapping[str | None, tuple[int, ...]]:
    """The versions that tags of a table keep, by user."""
    return _versions(tags_of(state, table_id))


def remove_tags(state: ObjectStore, table_id: str, user: str, found: Callable[[int], None]) -> None:
    """Removes every tag of one user's scope; calls `found` with their number before the first is removed."""
    keys = [entry.key for entry in state.list(_of_scope(_TAGS, table_id, user))]
    found(len(keys))
    state.delete(keys)


def _key(table_id: str, tag: Tag) -> str:
    """Named by a hash of the user: any text may be a user id, and tags are never looked up by listing users."""
    return f"{_of_scope(_TAGS, table_id, tag.user)}/{tag.name}"


_TAGS, _PINS = "tags", "leases"


def _read_all(state: ObjectStore, root: str, table_id: str, noun: str, read: Callable[[str, Any], T]) -> Iterator[T]:
    """What is kept of a table, but what was removed since the listing. Raises `Corrupt`."""
    for key in state.keys(f"{root}/{table_id}"):
        try:
            found = read(key, json.loads(state.get(key)))
        except Missing:
            continue
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"the {noun} {key} in {state.uri} can't be read: {error}") from error
        yield found


def _versions(kept: Iterable[Tag | Pin]) -> Mapping[str | None, tuple[int, ...]]:
    """By user."""
    found: dict[str | None, tuple[int, ...]] = defaultdict(tuple)
    for one in kept:
        found[one.user] += (one.version,)
    return found


def _of_scope(root: str, table_id: str, user: str | None) -> str:
    return f"{root}/{table_id}/{hashlib.sha256((user or '').encode()).hexdigest()}"


_LONGEST = timedelta(days=30)
"""An abandoned reader must not keep files for ever; a tag is for versions that have to stay."""


@dataclass(frozen=True)
class Pin:
    """A version of one scope that stays until `expires`. `user` is None for a SHARED table."""

    key: str
    user: str | None
    version: int
    expires: datetime


def pin_version(
    state: ObjectStore, table_id: str, target: ScopeTarget, version: int | None, seconds: float, *, now: datetime, new_id: NewId
) -> Pin:
    """Pins a version, the newest where none is given.

    Raises:
        InvalidArgument: the time is not above 0 and up to 30 days.
        NotFound: the scope has no table yet, or the version does not exist or is older than the retention.
    """
    if not 0 < seconds <= _LONGEST.total_seconds():
        raise InvalidArgument(
            f"cannot pin a version for {seconds:g} seconds: give more than 0 and at most {_LONGEST.total_seconds():g};"
            " tag what has to stay"
        )
    table = existing_table(target, version)
    timeline = timeline_of(existing_table(target))
    oldest = timeline.needed_since(now - timedelta(hours=target.retention_hours))
    if table.version < oldest:
        raise NotFound(
            f"version {table.version} of {target.scope} is older than the {target.retention_hours} hours that are kept:"
            f" versions {oldest} to {timeline.newest} can be pinned"
        )
    user = target.scope.user
    key = f"{_of_scope(_PINS, table_id, user)}/{new_id()}"
    pin = Pin(key, user, table.version, now + timedelta(seconds=seconds))
    content = {"user": pin.user, "version": pin.version, "expires": pin.expires.isoformat()}
    state.create(key, json.dumps(content).encode())
    return pin


def release(state: ObjectStore, pin: Pin) -> None:
    """Ends a pin before its time; an expired one is not an error."""
    state.delete([pin.key])


def pinned_versions(state: ObjectStore, table_id: str, now: datetime) -> Mapping[str | None, tuple[int, ...]]:
    """The versions that pins of a table keep now, by user.

    Raises:
        Corrupt: a pin cannot be read.
    """
    return _versions(pin for pin in _pins(state, table_id) if pin.expires > now)


def forget_expired(state: ObjectStore, table_id: str, now: datetime) -> None:
    """Removes expired pins."""
    state.delete([pin.key for pin in _pins(state, table_id) if pin.expires <= now])


def remove_pins(state: ObjectStore, table_id: str, user: str) -> None:
    """Ends every pin on one user's scope."""
    state.delete([entry.key for entry in state.list(_of_scope(_PINS, table_id, user))])


def _pins(state: ObjectStore, table_id: str) -> Iterator[Pin]:
    def read(key: str, said: Any) -> Pin:
        return Pin(key, said["user"], int(said["version"]), datetime.fromisoformat(said["expires"]))

    return _read_all(state, _PINS, table_id, "pin", read)
