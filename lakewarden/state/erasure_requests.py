"""Erasures that were asked for and wait to be run: one object each, named by the user's keyed hash.

Whoever runs it needs the hash alone. That lets an erasure pass through systems that keep what they are given for ever, as
Dagster keeps the forms of its runs. The object holds the id, and goes before anything is searched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from lakewarden.errors import Corrupt, InvalidArgument, LakewardenError, NotFound
from lakewarden.state.erasures import ROOT
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.paths import without_id

_ASKED = f"{ROOT}/asked"


@dataclass(frozen=True)
class EraseAsked:
    """Whom to erase from which tables (all USER tables where none is named); `asked_by` stands in the certificate."""

    user: str
    tables: tuple[str, ...]
    asked_by: str
    deep: bool


def keep_asked(store: ObjectStore, mark: str, asked: EraseAsked) -> None:
    """Keeps the request, in place of an earlier one for the same user."""
    store.put(_key(mark), json.dumps(asdict(asked), ensure_ascii=False).encode())


def find_asked(store: ObjectStore, mark: str) -> EraseAsked:
    """Raises:
    NotFound: nothing was asked for under this keyed hash.
    InvalidArgument, Corrupt: it is none; the object cannot be read.
    """
    if not re.fullmatch(r"[0-9a-f]{32}", mark):
        raise InvalidArgument("a request is named by the keyed hash that `lakewarden erase --queue` printed, not by a user's id")
    try:
        data = store.get(_key(mark))
    except Missing:
        raise NotFound(f"no erasure is asked for under {mark}: queue it with `lakewarden erase --queue`") from None
    try:
        said = json.loads(data)
        return EraseAsked(**{**said, "tables": tuple(said["tables"])})
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{store.uri}/{_key(mark)} is no request for an erasure") from error


@contextmanager
def nameless(user: str, mark: str) -> Iterator[None]:
    """Errors from within name the user by the keyed hash alone: they go where nobody could remove the id."""
    try:
        yield
    except LakewardenError as error:
        error.message = without_id(error.message, user, mark)
        error.args = (error.message,)
        error.__cause__ = error.__context__ = None  # they may have the id too
        raise


def forget_asked(store: ObjectStore, mark: str) -> None:
    store.delete([_key(mark)])


def _key(mark: str) -> str:
    return f"{_ASKED}/{mark}"
