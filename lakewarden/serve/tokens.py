"""Access tokens, of logins and of the operator, and the keys that sign them: JSON Web Tokens, for this warehouse alone."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import jwt

from lakewarden.base.clock import Clock, from_micros, to_millis
from lakewarden.catalog.access import OPERATOR, Principal, parse_role
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.errors import InvalidArgument
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore
from lakewarden.storage.paths import check_user
from lakewarden.tables.warehouse import Warehouse

# The keys that sign access tokens: one for each day, in the warehouse, so that all servers of it share them.
#
# `serve/keys/<days since 1970>` is created once, by whichever server first needs it. A key verifies tokens of its own day and
# of the next; the longest token lives for less than a day. What is older is removed when a key is made.

_ROOT = "serve/keys"
_BYTES = 32
PERIOD = timedelta(days=1)


@dataclass(frozen=True)
class Key:
    id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class SigningKeys:
    """The keys of one warehouse; `store` is rooted at its `_lakewarden/`. Safe for threads."""

    store: ObjectStore
    _known: dict[str, Key] = field(default_factory=dict)

    def signing(self, now: datetime) -> Key:
        """The key of the day, made if this is its first use."""
        today = _period(now)
        found = self._read(today)
        if found is not None:
            return found
        with suppress(AlreadyThere):
            self.store.create(f"{_ROOT}/{today}", secrets.token_bytes(_BYTES))
        self.store.delete([key for key in self.store.keys(_ROOT) if int(key.rpartition("/")[2]) < today - 1])
        made = self._read(today)
        assert made is not None, "it was created just now, by this process or another, and only older ones are removed"
        return made

    def verifying(self, key_id: str, now: datetime) -> Key | None:
        """The key of that id, if its tokens may still be valid."""
        today = _period(now)
        if key_id not in (str(today), str(today - 1)):
            return None
        return self._read(int(key_id))

    def _read(self, period: int) -> Key | None:
        name = str(period)
        if name not in self._known:
            try:
                self._known[name] = Key(name, self.store.get(f"{_ROOT}/{name}"))
            except Missing:
                return None
        return self._known[name]


def _period(now: datetime) -> int:
    return (now - from_micros(0)) // PERIOD


_ALGORITHM = "HS256"
LIFE = timedelta(minutes=15)
_LONGEST = PERIOD


class BadToken(Exception):
    """The token does not work; the text says why."""


@dataclass(frozen=True)
class AccessToken:
    """What a valid token says. `changed`, the user's last change that it knows, and `expires` in milliseconds since 1970;
    `by_login` if a password stands behind it."""

    principal: Principal
    login: str
    changed: int
    expires: int
    by_login: bool


@dataclass(frozen=True)
class Tokens:
    """The tokens of one warehouse, by its id."""

    keys: SigningKeys
    warehouse: str
    clock: Clock

    def issue(self, principal: Principal, login: str, changed: int, *, by_login: bool, life: timedelta = LIFE) -> str:
        """Raises InvalidArgument: the life is not above zero, or longer than a day."""
        if not timedelta(0) < life <= _LONGEST:
            raise InvalidArgument(
                f"a token lives for up to {_LONGEST.total_seconds():.0f} seconds, not {life.total_seconds():.0f}"
            )
        now = self.clock()
        key = self.keys.signing(now)
        claims = {
            "sub": principal.user,
            "role": principal.role,
            "aud": self.warehouse,
            "sid": login,
            "login": by_login,
            "changed": changed,
            "iat": to_millis(now) / 1000,
            "exp": to_millis(now + life) / 1000,
        }
        return jwt.encode(claims, key.secret, _ALGORITHM, headers={"kid": key.id})

    def read(self, text: str) -> AccessToken:
        """Raises BadToken: it is not signed by a key of this warehouse, expired, or says something else than ours say."""
        now = self.clock()
        try:
            key = self.keys.verifying(str(jwt.get_unverified_header(text).get("kid", "")), now)
            if key is None:
                raise BadToken("the token is signed by a key that is unknown, or no longer valid")
            options: jwt.types.Options = {
                "require": ["sub", "role", "sid", "iat", "exp"],
                "verify_exp": False,
                "verify_iat": False,
            }
            claims = jwt.decode(text, key.secret, [_ALGORITHM], options=options, audience=self.warehouse)
            return _token(claims, now)
        except (jwt.InvalidTokenError, InvalidArgument, ValueError, TypeError) as error:
            raise BadToken("the token is not one of this warehouse") from error


def _token(claims: dict[str, object], now: datetime) -> AccessToken:
    expires, issued = float(str(claims["exp"])), float(str(claims["iat"]))
    changed = int(str(claims.get("changed", round(issued * 1000))))  # tokens of earlier releases say when they were issued alone
    if now.timestamp() >= expires:
        raise BadToken("the token has expired")
    principal = Principal(str(claims["sub"]), parse_role(str(claims["role"])))
    return AccessToken(principal, str(claims["sid"]), changed, round(expires * 1000), claims.get("login") is True)


# Tokens that the operator makes, for any user in any role, without a login.
def operator_token(warehouse: Warehouse, user: str, role: str, life: timedelta) -> str:
    """Raises InvalidArgument: the user's name is not valid, the role does not exist, or the life is longer than a day."""
    principal = Principal(check_user(user), parse_role(role))
    found = warehouse.catalog.read().users.get(user)
    changed = 0 if found is None else to_millis(found.updated_at)
    tokens = Tokens(SigningKeys(warehouse.state), warehouse.id, warehouse.clock)
    made = tokens.issue(principal, warehouse.new_id(), changed, by_login=False, life=life)
    audit = AuditLog(warehouse.state, warehouse.clock, warehouse.new_id)
    audit.note(OPERATOR, "TOKEN", f"user:{user}", f"role {principal.role}, {life.total_seconds():.0f} s")
    return made
