"""Tags: names of versions, stored as objects, so that no vacuum removes what a name still points at."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakewarden.base.scope import without_table
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.lifecycle.freezing import check_not_frozen
from lakewarden.delta.scope import open_scope
from lakewarden.delta.timeline import Timeline, read_timeline
from lakewarden.errors import AlreadyExists, Corrupt, InvalidArgument, NotFound
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.open import open_store

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
    table = open_scope(target, version)
    if table is None:
        raise without_table(target.scope)
    check_not_frozen(table, target)
    timeline = timeline_now(target)
    if not timeline.has(table.version):  # it may open anyway, but no vacuum could keep it
        there = f"versions {timeline.oldest} to {timeline.newest} are kept"
        raise NotFound(f"version {table.version} of {target.scope} was removed by a vacuum: {there}")
    tag = Tag(name, target.scope.user, table.version)
    try:
        state.create(_key(table_id, tag), json.dumps({"user": tag.user, "version": tag.version}).encode())
    except AlreadyThere as error:
        raise AlreadyExists(f"{target.scope} already has a tag {name!r}") from error
    return tag


def timeline_now(target: ScopeTarget) -> Timeline:
    """The versions of the scope's current table.

    Raises:
        NotFound: the scope has no table.
    """
    table = open_scope(target)
    if table is None:
        raise without_table(target.scope)
    return read_timeline(open_store(target.location), table.version, open_store(target.location).list(""))


def drop_tag(state: ObjectStore, table_id: str, user: str | None, name: str) -> None:
    """Removes a tag; the next vacuum may remove the version.

    Raises:
        NotFound: the scope has no such tag.
    """
    there = {entry.key for entry in state.list(_home(table_id, user))}
    key = f"{_home(table_id, user)}/{name}"
    if key not in there:
        raise NotFound(f"there is no tag {name!r}; there are {', '.join(sorted(k.rpartition('/')[2] for k in there)) or 'none'}")
    state.delete([key])


def tags_of(state: ObjectStore, table_id: str) -> list[Tag]:
    """Every tag of a table."""
    tags = []
    for entry in state.list(f"tags/{table_id}"):
        try:
            tag = json.loads(state.get(entry.key))
            tags.append(Tag(entry.key.rpartition("/")[2], tag["user"], int(tag["version"])))
        except Missing:  # removed just now
            continue
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"the tag {entry.key} in {state.uri} can't be read: {error}") from error
    return tags


def tagged_versions(state: ObjectStore, table_id: str) -> Mapping[str | None, tuple[int, ...]]:
    """The versions that tags of a table keep, by user."""
    kept: dict[str | None, tuple[int, ...]] = defaultdict(tuple)
    for tag in tags_of(state, table_id):
        kept[tag.user] += (tag.version,)
    return kept


def remove_tags(state: ObjectStore, table_id: str, user: str, found: Callable[[int], None]) -> None:
    """Removes every tag of one user's scope; calls `found` with their number before the first is removed."""
    keys = [entry.key for entry in state.list(_home(table_id, user))]
    found(len(keys))
    state.delete(keys)


def _key(table_id: str, tag: Tag) -> str:
    """Named by a hash of the user: any text may be a user id, and tags are never looked up by listing users."""
    return f"{_home(table_id, tag.user)}/{tag.name}"


def _home(table_id: str, user: str | None) -> str:
    return f"tags/{table_id}/{hashlib.sha256((user or '').encode()).hexdigest()}"
