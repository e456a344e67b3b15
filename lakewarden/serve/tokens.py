"""Access tokens: JSON Web Tokens, signed by HS256 alone, for this warehouse alone, for a user in a role."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import jwt

from lakewarden.base.clock import Clock, to_millis
from lakewarden.catalog.access import Principal, parse_role
from lakewarden.errors import InvalidArgument
from lakewarden.serve.keys import PERIOD, SigningKeys

_ALGORITHM = "HS256"
LIFE = timedelta(minutes=15)
_LONGEST = PERIOD


class BadToken(Exception):
    """The token does not work; the text says why."""


@dataclass(frozen=True)
class AccessToken:
    """What a valid token says. `issued` and `expires` in milliseconds since 1970; `by_login` if a password stands behind it."""

    principal: Principal
    login: str
    issued: int
    expires: int
    by_login: bool


@dataclass(frozen=True)
class Tokens:
    """The tokens of one warehouse, by its id."""

    keys: SigningKeys
    warehouse: str
    clock: Clock

    def issue(self, principal: Principal, login: str, *, by_login: bool, life: timedelta = LIFE) -> str:
        """Raises:
        InvalidArgument: the life is not above zero, or longer than a day.
        """
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
            "iat": to_millis(now) / 1000,
            "exp": to_millis(now + life) / 1000,
        }
        return jwt.encode(claims, key.secret, _ALGORITHM, headers={"kid": key.id})

    def read(self, text: str) -> AccessToken:
        """Raises:
        BadToken: it is not signed by a key of this warehouse, expired, or says something else than ours say.
        """
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
    if now.timestamp() >= expires:
        raise BadToken("the token has expired")
    principal = Principal(str(claims["sub"]), parse_role(str(claims["role"])))
    return AccessToken(principal, str(claims["sid"]), round(issued * 1000), round(expires * 1000), claims.get("login") is True)
