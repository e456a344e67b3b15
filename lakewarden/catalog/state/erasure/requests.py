"""Requested erasures that wait for a runner: one object each, named by the user's keyed hash.

A runner needs only the hash. So an erasure can pass through systems that keep their input for ever, as
Dagster keeps the parameters of its runs. The object holds the id, and is removed before the search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from lakewarden.catalog.state.erasure.erasures import ROOT
from lakewarden.errors import Corrupt, InvalidArgument, LakewardenError, NotFound
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.paths import without_id

_REQUESTS = f"{ROOT}/asked"


@dataclass(frozen=True)
class ErasureRequest:
    """Whom to erase from which tables (by default all USER tables). The certificate repeats `asked_by`."""

    user: str
    tables: tuple[str, ...]
    asked_by: str
    deep: bool


def keep_request(store: ObjectStore, mark: str, request: ErasureRequest) -> None:
    """Stores the request, replacing an earlier one for the same user."""
    store.put(_key(mark), json.dumps(asdict(request), ensure_ascii=False).encode())


def find_request(store: ObjectStore, mark: str) -> ErasureRequest:
    """Returns the request under this keyed hash.

    Raises:
        NotFound: there is no request under this keyed hash.
        InvalidArgument: this is not a keyed hash.
        Corrupt: the object cannot be read.
    """
    if not re.fullmatch(r"[0-9a-f]{32}", mark):
        raise InvalidArgument("a request is named by the keyed hash that `lakewarden erase --queue` printed, not by a user's id")
    try:
        data = store.get(_key(mark))
    except Missing:
        raise NotFound(f"no erasure is requested under {mark}: queue it with `lakewarden erase --queue`") from None
    try:
        said = json.loads(data)
        return ErasureRequest(**{**said, "tables": tuple(said["tables"])})
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{store.uri}/{_key(mark)} is not a request for an erasure") from error


def is_requested(store: ObjectStore, mark: str) -> bool:
    """Returns whether an erasure is requested under this keyed hash."""
    try:
        store.get(_key(mark))
    except Missing:
        return False
    return True


@contextmanager
def nameless(user: str, mark: str) -> Iterator[None]:
    """Replaces the user's id by the keyed hash in errors from the block: they reach places where the id could not be removed."""
    try:
        yield
    except LakewardenError as error:
        error.message = without_id(error.message, user, mark)
        error.args = (error.message,)
        error.__cause__ = error.__context__ = None  # these may contain the id too
        raise


def forget_request(store: ObjectStore, mark: str) -> None:
    store.delete([_key(mark)])


def _key(mark: str) -> str:
    return f"{_REQUESTS}/{mark}"
