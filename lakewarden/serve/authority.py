"""Who a request is from: logins by password, their tokens, and what ends them. Every refusal is in the audit log."""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import NoReturn

from lakewarden.base.clock import Clock, NewId, to_millis
from lakewarden.base.recent import Recent
from lakewarden.catalog.access import Principal
from lakewarden.catalog.model import User
from lakewarden.catalog.passwords import MAX_LENGTH, hash_password, is_password
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.errors import InvalidArgument
from lakewarden.serve.tokens import LIFE, AccessToken, BadToken, SigningKeys, Tokens
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.paths import check_user
from lakewarden.tables.warehouse import Warehouse


class RequestDeclined(Exception):
    """Declined for a reason of the network's: no token, too large, too many. `status` is HTTP's; after `retry_after` seconds
    another attempt may help, where one may at all."""

    def __init__(self, status: int, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status
        self.message = message


# Limits how often something may fail, by who tries it. Counts are this process's own.
_KEPT = 10_000
"""Names that are counted at the same time; beyond, the one that tried longest ago is forgotten."""


@dataclass
class FailureCounter:
    """At most `most` failures of a name within a minute. Safe for threads."""

    clock: Clock
    most: int
    _failed: Recent[str, list[datetime]] = field(default_factory=lambda: Recent(_KEPT))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, name: str) -> bool:
        """Whether the name may try again."""
        since = self.clock() - timedelta(minutes=1)
        return len([moment for moment in self._failed.get(name) or () if moment > since]) < self.most

    def failed(self, name: str) -> None:
        with self._lock:
            self._failed.put(name, [*(self._failed.get(name) or ()), self.clock()][-self.most :])


# Logins and their refresh tokens. A refresh token works once: it is replaced by the next one of its login.
#
# `serve/logins/<login>/<n>` holds the digest of the login's n-th refresh token, and is created once: who creates n + 1 has used
# token n. A token that was used before is a replay, and `serve/logins/<login>/ended` ends the login with all its tokens. No
# object holds a user's name or a token.

_ROOT = "serve/logins"
_ENDED = "ended"
LOGIN_LIFE = timedelta(days=14)
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
    changed: int
    """When the user was last changed as it was made: milliseconds since 1970."""
    text: str = field(repr=False)


@dataclass(frozen=True)
class Logins:
    """The logins of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads and processes."""

    store: ObjectStore
    clock: Clock
    new_id: NewId

    def begin(self, user: str, changed: int) -> RefreshToken:
        """A new login's first refresh token."""
        return self._issue(self.new_id(), 1, user, changed)

    def rotate(self, text: str) -> RefreshToken:
        """Uses a refresh token, and returns the next one.

        Raises:
            Refused: it is unknown, expired, of a login that ended, or was used before; a replay ends the login.
        """
        token = self.read(text)
        try:
            return self._issue(token.login, token.number + 1, token.user, token.changed)
        except AlreadyThere as error:
            self.end(token.login)
            raise RefreshRefused(
                "the refresh token was used before: its login is ended, log in again", token.user, replayed=True
            ) from error

    def read(self, text: str) -> RefreshToken:
        """Raises Refused: the token is unknown, expired, or its login ended."""
        token = _decoded(text)
        try:
            stored, at = self.store.get(_key(token.login, token.number)), token.issued
        except Missing as error:
            raise RefreshRefused("the refresh token is unknown: log in again", token.user) from error
        if not hmac.compare_digest(stored.decode(), _digest(text)):
            raise RefreshRefused("the refresh token is unknown: log in again", token.user)
        if self.clock() >= at + LOGIN_LIFE:
            raise RefreshRefused("the refresh token has expired: log in again", token.user)
        if self.has_ended(token.login):
            raise RefreshRefused("the login was ended: log in again", token.user)
        return token

    def end(self, login: str) -> None:
        with suppress(AlreadyThere):
            self.store.create(f"{_ROOT}/{login}/{_ENDED}", b"ended")

    def has_ended(self, login: str) -> bool:
        return self.store.has(f"{_ROOT}/{login}/{_ENDED}")

    def _issue(self, login: str, number: int, user: str, changed: int) -> RefreshToken:
        now = self.clock()
        parts = [login, number, user, now.isoformat(), changed, secrets.token_urlsafe(32)]
        text = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()
        self.store.create(_key(login, number), _digest(text).encode())
        return RefreshToken(login, number, user, now, changed, text)


def _decoded(text: str) -> RefreshToken:
    try:
        login, number, user, said, *rest = json.loads(base64.b64decode(text.encode(), altchars=b"-_", validate=True))
        if not (isinstance(login, str) and login.isalnum() and isinstance(number, int) and isinstance(user, str)):
            raise RefreshRefused("the refresh token is unknown: log in again", "")
        issued = datetime.fromisoformat(said)
        changed = int(rest[0]) if len(rest) > 1 else to_millis(issued)  # as in access tokens of earlier releases
        return RefreshToken(login, number, user, issued, changed, text)
    except (ValueError, TypeError) as error:
        raise RefreshRefused("the refresh token is unknown: log in again", "") from error


def _key(login: str, number: int) -> str:
    return f"{_ROOT}/{login}/{number:08d}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


_WRONG = "user or password is wrong"
_NO_END = 1 << 62
"""Of what a password opened: it ends with a change of the user."""
_NOBODY = Principal("anonymous", "anonymous")


@dataclass(frozen=True)
class LoginAnswer:
    """The answer to a login and to a refresh; `expires_in` in seconds."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_in: int


class Authority:
    """Decides for one warehouse. Safe for threads."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._tokens = Tokens(SigningKeys(warehouse.state), warehouse.id, warehouse.clock)
        self._logins = Logins(warehouse.state, warehouse.clock, warehouse.new_id)
        self._audit = AuditLog(warehouse.state, warehouse.clock, warehouse.new_id)
        self._most = warehouse.settings.serve.refusals_per_minute
        self._attempts = FailureCounter(warehouse.clock, self._most)
        self._no_password = hash_password(secrets.token_urlsafe(16))

    def login(self, user: str, password: str, address: str, life: timedelta = LIFE) -> LoginAnswer:
        """`life`: of the access token.

        Raises:
            Declined: the user or the password is wrong, or there were too many wrong ones.
        """
        found = self._known(user, password, address)
        refresh = self._logins.begin(user, to_millis(found.updated_at))
        return self._granted(found, refresh.login, refresh.text, life)

    def enter(self, user: str, password: str, address: str) -> AccessToken:
        """Who a connection is from that stays: by the user's password, or by an access token in its place. `check` is
        for each of its requests.

        Raises:
            Declined: as `login` and `token_of`, or the token is another user's.
        """
        if len(password) <= MAX_LENGTH:
            found = self._known(user, password, address)
            return AccessToken(Principal(user, found.role), "", to_millis(found.updated_at), _NO_END, by_login=True)
        token = self.token_of(f"Bearer {password}", address)
        if token.principal.user != user:
            self._refuse(user, "TOKEN_REFUSED", "the token is another user's", address, f"user {user}", address)
        self._audit.note(token.principal, "LOGIN", f"user:{user}", f"by a token, from {address}")
        return token

    def check(self, token: AccessToken) -> None:
        """Raises Declined: what `enter` answered does not hold any more."""
        if to_millis(self._warehouse.clock()) >= token.expires:
            raise RequestDeclined(401, "the token has expired: connect again with another")
        if self._is_revoked(token):
            raise RequestDeclined(401, "the user was dropped, or changed since: connect again")

    def _known(self, user: str, password: str, address: str) -> User:
        """The user of that password. Raises as `login`."""
        self._check_attempts(f"user {user}", address)
        found = self._user(user)
        hashed = found.password_hash if found is not None and found.password_hash is not None else self._no_password
        if not is_password(password, hashed) or found is None or found.password_hash is None:
            self._refuse(user, "LOGIN_REFUSED", _WRONG, address, f"user {user}", address)
        self._audit.note(Principal(user, found.role), "LOGIN", f"user:{user}", f"from {address}")
        return found

    def refresh(self, text: str, address: str) -> LoginAnswer:
        """Raises Declined: the token does not work. One that was used before ends its login."""
        self._check_attempts(address)
        try:
            token = self._logins.read(text)
            found = self._user(token.user)
            if found is None or to_millis(found.updated_at) > token.changed:
                raise RefreshRefused("the user was dropped, or changed since the login: log in again", token.user)
            after = self._logins.rotate(text)
        except RefreshRefused as refused:
            action = "REFRESH_REPLAYED" if refused.replayed else "REFRESH_REFUSED"
            self._refuse(refused.user, action, str(refused), address, address)
        return self._granted(found, after.login, after.text)

    def logout(self, token: AccessToken) -> None:
        """Ends the login of a token, with all its tokens."""
        self._logins.end(token.login)
        self._audit.note(token.principal, "LOGOUT", f"user:{token.principal.user}")

    def token_of(self, authorization: str | None, address: str) -> AccessToken:
        """The token of a request's header `Authorization`.

        Raises:
            Declined: it is missing, not a token of this warehouse, expired or revoked.
        """
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise RequestDeclined(401, "a token is missing: send 'Authorization: Bearer …' with one from /v1/auth/login")
        try:
            token = self._tokens.read(text.strip())
        except BadToken as bad:
            self._refuse_token("", str(bad), address)
        if self._is_revoked(token):
            self._refuse_token(token.principal.user, "the token was revoked: log in again", address)
        return token

    def confirm(self, token: AccessToken) -> None:
        """A token that worked when its stream began.

        Raises:
            Declined: it has expired or was revoked since. That is not a guess, and does not count as one.
        """
        if to_millis(self._warehouse.clock()) >= token.expires:
            raise RequestDeclined(401, "the token has expired")
        if self._is_revoked(token):
            self._refuse(token.principal.user, "TOKEN_REFUSED", "the token was revoked: log in again", "")

    def _is_revoked(self, token: AccessToken) -> bool:
        """A logout ends the login; any change of the user ends all tokens that are older, by the order of changes: the clock
        of whoever changed the user may differ from that of a server."""
        found = self._warehouse.catalog.recent().users.get(token.principal.user)
        gone = token.by_login if found is None else found.deleted_at is not None or to_millis(found.updated_at) > token.changed
        return gone or (token.login != "" and self._logins.has_ended(token.login))

    def _user(self, name: str) -> User | None:
        found = self._warehouse.catalog.read().users.get(name)
        return None if found is None or found.deleted_at is not None else found

    def _granted(self, user: User, login: str, refresh: str, life: timedelta = LIFE) -> LoginAnswer:
        principal = Principal(user.user_id, user.role)
        access = self._tokens.issue(principal, login, to_millis(user.updated_at), by_login=True, life=life)
        return LoginAnswer(access, refresh, int(life.total_seconds()))

    def _check_attempts(self, *names: str) -> None:
        if not all(self._attempts.open(name) for name in names):
            raise RequestDeclined(
                429, f"{self._most} requests in a minute were refused: wait a minute (serve.refusals_per_minute)", retry_after=60
            )

    def _refuse_token(self, user: str, why: str, address: str) -> NoReturn:
        """Counted apart from passwords: a page whose token expired sends it several times at once, and then logs in again.
        A token that works is never refused for those that do not."""
        counted = f"tokens of {address}"
        self._check_attempts(counted)
        self._refuse(user, "TOKEN_REFUSED", why, address, counted)

    def _refuse(self, user: str, action: str, why: str, address: str, *counted: str) -> NoReturn:
        for name in counted:
            self._attempts.failed(name)
        who = _principal(user)
        self._audit.note(who, action, f"user:{who.user}", f"{why} (from {address})" if address else why)
        raise RequestDeclined(401, why)


def _principal(user: str) -> Principal:
    """Whom the audit log names: a text that cannot be a user's name is not kept."""
    try:
        return Principal(check_user(user), "anonymous")
    except InvalidArgument:
        return _NOBODY
