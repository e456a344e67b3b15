"""Logins and their refresh tokens. A refresh token works once: it is replaced by the next one of its login.

`serve/logins/<login>/<n>` holds the digest of the login's n-th refresh token, and is created once: who creates n + 1 has used
token n. A token that was used before is a replay, and `serve/logins/<login>/ended` ends the login with all its tokens. No object
holds a user's name or a token.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from lakewarden.base.clock import Clock, NewId
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

_ROOT = "serve/logins"
_ENDED = "ended"
LIFE = timedelta(days=14)
"""Of a refresh token that is not used."""


class RefreshRefused(Exception):
    """The refresh token does not work; the text says why. `replayed` if it was used before."""

    def __init__(self, why: str, user: str, *, replayed: bool = False) -> None:
        super().__init__(why)
        self.user = user
        self.replayed = replayed


@dataclass(frozen=True)
class RefreshToken:
    login: str
    number: int
    user: str
    issued: datetime
    text: str


@dataclass(frozen=True)
class Logins:
    """The logins of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads and processes."""

    store: ObjectStore
    clock: Clock
    new_id: NewId

    def begin(self, user: str) -> RefreshToken:
        """A new login's first refresh token."""
        return self._issue(self.new_id(), 1, user)

    def rotate(self, text: str) -> RefreshToken:
        """Uses a refresh token, and returns the next one.

        Raises:
            Refused: it is unknown, expired, of a login that ended, or was used before; a replay ends the login.
        """
        token = self.read(text)
        try:
            return self._issue(token.login, token.number + 1, token.user)
        except AlreadyThere as error:
            self.end(token.login)
            raise RefreshRefused(
                "the refresh token was used before: its login is ended, log in again", token.user, replayed=True
            ) from error

    def read(self, text: str) -> RefreshToken:
        """Raises:
        Refused: the token is unknown, expired, or its login ended.
        """
        token = _decoded(text)
        try:
            stored, at = self.store.get(_key(token.login, token.number)), token.issued
        except Missing as error:
            raise RefreshRefused("the refresh token is unknown: log in again", token.user) from error
        if not hmac.compare_digest(stored.decode(), _digest(text)):
            raise RefreshRefused("the refresh token is unknown: log in again", token.user)
        if self.clock() >= at + LIFE:
            raise RefreshRefused("the refresh token has expired: log in again", token.user)
        if self.has_ended(token.login):
            raise RefreshRefused("the login was ended: log in again", token.user)
        return token

    def end(self, login: str) -> None:
        with suppress(AlreadyThere):
            self.store.create(f"{_ROOT}/{login}/{_ENDED}", b"ended")

    def has_ended(self, login: str) -> bool:
        return self.store.has(f"{_ROOT}/{login}/{_ENDED}")

    def _issue(self, login: str, number: int, user: str) -> RefreshToken:
        now = self.clock()
        parts = [login, number, user, now.isoformat(), secrets.token_urlsafe(32)]
        text = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()
        self.store.create(_key(login, number), _digest(text).encode())
        return RefreshToken(login, number, user, now, text)


def _decoded(text: str) -> RefreshToken:
    try:
        login, number, user, issued, _ = json.loads(base64.b64decode(text.encode(), altchars=b"-_", validate=True))
        if not (isinstance(login, str) and login.isalnum() and isinstance(number, int) and isinstance(user, str)):
            raise RefreshRefused("the refresh token is unknown: log in again", "")
        return RefreshToken(login, number, user, datetime.fromisoformat(issued), text)
    except (ValueError, TypeError) as error:
        raise RefreshRefused("the refresh token is unknown: log in again", "") from error


def _key(login: str, number: int) -> str:
    return f"{_ROOT}/{login}/{number:08d}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
