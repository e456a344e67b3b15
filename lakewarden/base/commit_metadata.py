"""A caller's own metadata of a commit, a JSON object, on its way to what is written: the log and Delta's commits carry it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar, cast

from lakewarden.base import exact_json
from lakewarden.base.threads import within
from lakewarden.errors import InvalidArgument

P = ParamSpec("P")
R = TypeVar("R")

Metadata = Mapping[str, object]

MOST_BYTES = 4096
"""Of one object, as JSON."""

MOST_BYTES_OF_A_COMMIT = 64 << 10
"""Of what a flush puts together from the writes whose rows it takes."""

_DEEPEST = 16
_WHOLE = range(-(1 << 63), 1 << 64)
"""What readers of Delta's log have for a whole number."""

_CURRENT: ContextVar[str] = ContextVar("commit_metadata", default="")


def carrying(text: str) -> AbstractContextManager[None]:
    """What this thread writes in the block carries this metadata, as `metadata_text` returns it; none where it is empty."""
    return within(_CURRENT, text)


@contextmanager
def attached(metadata: Metadata | None) -> Iterator[None]:
    """As `carrying`, for a caller's object; without one, what is carried already stays.

    Raises:
        InvalidArgument: as `metadata_text`.
    """
    with carrying(carried() if metadata is None else metadata_text(metadata)):
        yield


def attaches(call: Callable[P, R]) -> Callable[P, R]:
    """The call, whose argument `metadata` is attached to all that it writes."""

    @wraps(call)
    def attaching(*args: P.args, **kwargs: P.kwargs) -> R:
        metadata = cast("Metadata | None", kwargs.get("metadata"))
        if metadata is None:  # what is carried already stays: a block around each append would cost it some microseconds
            return call(*args, **kwargs)
        with attached(metadata):
            return call(*args, **kwargs)

    return attaching


carried = _CURRENT.get
"""What a write of this thread carries; empty for most."""


def metadata_text(metadata: object) -> str:
    """The object as JSON; empty where it is empty.

    Raises:
        InvalidArgument: it is no JSON object, or larger than `MOST_BYTES`.
    """
    if not isinstance(metadata, Mapping):
        raise _invalid(f"it is a JSON object, not {_kind(metadata)}")
    try:
        _check(metadata)
        text = exact_json.encode(dict(metadata))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(str(error)) from error
    if size > MOST_BYTES:
        raise _invalid(f"it has {size} bytes as JSON, and {MOST_BYTES} at most are kept")
    return text if metadata else ""


def parsed_metadata(text: str) -> str:
    """The same of an object that was written as JSON.

    Raises:
        InvalidArgument: it is no JSON object, has a key twice, or is too large.
    """
    try:
        found = exact_json.decoded(text.encode())
    except ValueError as error:
        raise _invalid(f"it is a JSON object, and {text[:80]!r} is not: {error}") from error
    return metadata_text(found)


class MergedMetadata(NamedTuple):
    """The metadata of several writes as one object."""

    text: str
    left_out: int
    """How many objects, the oldest, found no room."""


def merged(texts: Sequence[str]) -> MergedMetadata:
    """Returns the objects as one, of writes in their order: of equal keys, the last one's value counts."""
    newest_first = [*dict.fromkeys(text for text in reversed(texts) if text)]
    if len(newest_first) < 2:
        return MergedMetadata("".join(newest_first), 0)
    whole: dict[str, object] = {}
    for number, text in enumerate(newest_first):
        wider = {**_decoded(text), **whole}
        if len(exact_json.encode(wider).encode()) > MOST_BYTES_OF_A_COMMIT:
            return MergedMetadata(exact_json.encode(whole), len(newest_first) - number)
        whole = wider
    return MergedMetadata(exact_json.encode(whole), 0)


def shown_metadata(text: str) -> dict[str, object]:
    """The object, for people; empty where there is none."""
    found: dict[str, object] = json.loads(text or "{}")
    return found


def _decoded(text: str) -> dict[str, object]:
    found = exact_json.decoded(text.encode())
    assert isinstance(found, dict), "as `metadata_text` wrote it"
    return found


def _check(value: object, depth: int = 0) -> None:
    """Raises ValueError: something that readers of Delta's log could not read back."""
    if depth > _DEEPEST:
        raise ValueError(f"it is nested deeper than {_DEEPEST} levels")
    match value:
        case bool():  # before the whole numbers, of which Python takes it for one
            pass
        case int() if value not in _WHOLE:
            raise ValueError(f"the whole number {str(value)[:40]} has more than 64 bits: write it as text")
        case exact_json.JsonNumber() if value.nearest is None:
            raise ValueError(f"the number {value.text[:40]} is out of range: write it as text")
        case Mapping():
            if names := [name for name in value if not isinstance(name, str)]:
                raise ValueError(f"the name {names[0]!r} in it is not text")
            for each in value.values():
                _check(each, depth + 1)
        case list() | tuple():
            for each in value:
                _check(each, depth + 1)


def _kind(value: object) -> str:
    return "null" if value is None else f"a {type(value).__name__}"


def _invalid(why: str) -> InvalidArgument:
    return InvalidArgument(f"the metadata of a commit: {why}")
