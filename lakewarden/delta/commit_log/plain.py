"""Decides which tables we commit to ourselves: those that only use Delta's files, columns, properties and transactions.

Every table that Lakewarden makes is one. Where another program gave a table more (a feature, a property of Delta's that says
what writers have to do, a path that the log may spell in several ways), delta-rs writes the commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache

from lakewarden.delta.commit_log.actions import CHANGE_DATA_FEED, FEED_WRITER, READER, TableHead

_OURS = "lakewarden."
_HARMLESS = frozenset({"delta.checkpointInterval", "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"})
"""Properties that ask nothing of who writes a commit."""

_KNOWN = _HARMLESS | {CHANGE_DATA_FEED}

_PATH = re.compile(r"[A-Za-z0-9_.=/~%-]+")
"""A path with one spelling as a URL: the log has URLs, and its spellings are compared. Only `%` is escaped there."""


def is_plain(head: TableHead, paths: Iterable[str]) -> bool:
    """Whether a commit of ours to this table, with these files added or removed, says all that Delta asks for."""
    return is_plain_head(head) and has_plain(paths)


def has_plain(paths: Iterable[str]) -> bool:
    """The same of a table that is known to be one of ours."""
    return all(map(_PATH.fullmatch, paths))


def is_plain_head(head: TableHead) -> bool:
    """The same of a commit that names no file."""
    return (
        head.reader == READER
        and head.writer <= FEED_WRITER  # what else it may ask for shows in properties and columns
        and all(name in _KNOWN or name.startswith(_OURS) for name in head.configuration)
        and _has_plain_columns(head.schema)
    )


@lru_cache(maxsize=1024)
def _has_plain_columns(schema_json: str) -> bool:
    """No column has an invariant, a generated value, an identity or a mapping."""
    return all(
        name.startswith(_OURS) for field in json.loads(schema_json)["fields"] for name in (field.get("metadata") or {})
    ) and not _has_nested(schema_json)


def _has_nested(schema_json: str) -> bool:
    """Fields inside a field could ask for the same."""
    return any(not isinstance(field["type"], str) for field in json.loads(schema_json)["fields"])
