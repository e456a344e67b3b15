"""Whether a rule takes an object: a glob, the MIME types and the sizes accept it, and no exclude matches.

Globs go over the whole key, part by part: `*`, `?` and `[…]` within a part, `**` for any number of parts. ASCII letters match
in either case. Matching takes time in proportion to the key, whatever the glob: keys come from whoever may upload.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from functools import lru_cache
from mimetypes import MimeTypes

from lakewarden.catalog.model import IngestRule
from lakewarden.catalog.state.ledger import Ledger
from lakewarden.errors import InvalidArgument
from lakewarden.storage.sources import SourceObject

_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_MIME = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/(\*|[a-z0-9][a-z0-9!#$&^_.+-]*)")
_MOST = 1_000
"""Letters of a glob, and globs of a rule."""

_MORE_TYPES = {
    ".avro": "application/avro",
    ".csv": "text/csv",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".md": "text/markdown",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
}


def why_not(rule: IngestRule, key: str, size: int) -> str:
    """The reason why a rule does not take an object of that key and size in bytes; empty where it does."""
    if not rule.enabled:
        return "the rule is disabled"
    if any(matches(glob, key) for glob in rule.excludes):
        return "an exclude matches"
    if not any(matches(glob, key) for glob in rule.globs):
        return "no glob matches"
    if rule.mime_types and not any(_is_of(mime_type(key), wanted) for wanted in rule.mime_types):
        return f"its MIME type is {mime_type(key)}"
    if size < rule.min_size:
        return f"it has {size} bytes, less than {rule.min_size}"
    if rule.max_size is not None and size > rule.max_size:
        return f"it has {size} bytes, more than {rule.max_size}"
    return ""


def mime_type(key: str) -> str:
    """The MIME type that the ending of a name says, the same on every machine."""
    return _types().guess_type(f"x.{key.rpartition('.')[2]}")[0] or "application/octet-stream"


def matches(glob: str, key: str) -> bool:
    """Whether the glob matches the whole key."""
    parts, names = _parts(glob), key.translate(_LOWER).split("/")
    reached = {0}
    for part in parts:
        if part is None:
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and part.match(names[at])}
        if not reached:
            return False
    return len(names) in reached


def check_glob(glob: str) -> str:
    """Raises InvalidArgument: it is empty, too long, or begins or ends with a slash."""
    if not 0 < len(glob) <= _MOST or "" in glob.split("/"):
        raise InvalidArgument(f"glob {glob[:80]!r} must be parts joined by '/', as in '**/*.csv', with 1 to {_MOST} letters")
    return glob


def check_mime_type(text: str) -> str:
    """Returns the type in lower case.

    Raises:
        InvalidArgument: it is no MIME type.
    """
    if not _MIME.fullmatch(text.translate(_LOWER)):
        raise InvalidArgument(f"MIME type {text[:80]!r} must be as text/csv, or text/* for all of a kind")
    return text.translate(_LOWER)


@lru_cache(maxsize=1024)
def _parts(glob: str) -> tuple[re.Pattern[str] | None, ...]:
    """None stands for `**`."""
    return tuple(None if part == "**" else re.compile(fnmatch.translate(part)) for part in glob.translate(_LOWER).split("/"))


@lru_cache(maxsize=1)
def _types() -> MimeTypes:
    known = MimeTypes()
    for ending, kind in _MORE_TYPES.items():
        known.add_type(kind, ending)
    return known


def _is_of(kind: str, wanted: str) -> bool:
    return kind.startswith(wanted[:-1]) if wanted.endswith("/*") else kind == wanted


# Which of some objects a pipeline has still to take.
def untaken(ledger: Ledger, rule: IngestRule, objects: Sequence[SourceObject]) -> list[SourceObject]:
    """Those that the rule takes, and that the ledger does not have with this ETag. A batch that is not settled does not count."""
    wanted = [one for one in objects if not why_not(rule, one.key, one.size)]
    known = ledger.looked(lambda view: ledger.known(view, [one.key for one in wanted]))
    return [one for one in wanted if one.key not in known or not known[one.key].is_of(one.etag)]
