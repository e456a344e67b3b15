"""Tickets and handles: what a client brings back, signed for the one who may bring it, so that the server keeps nothing.

They are signed by the key of the day, like access tokens, and work until the end of the next day, on every server of the
warehouse.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from lakewarden.base.clock import Clock
from lakewarden.catalog.access import Principal
from lakewarden.errors import InvalidArgument, PermissionDenied
from lakewarden.serve.tokens import SigningKeys


class StatementTicket(msgspec.Struct, frozen=True, tag=True):
    """A text, and the values of its parameters, where they were bound: an Arrow stream of one row."""

    text: str
    parameters: bytes = b""


class AnswerTicket(msgspec.Struct, frozen=True, tag=True):
    """The answer of a statement that has run: an Arrow stream."""

    rows: bytes


class ListingTicket(msgspec.Struct, frozen=True, tag=True):
    """A command of Flight SQL that lists what there is."""

    command: bytes


Content = StatementTicket | AnswerTicket | ListingTicket


class _Signed(msgspec.Struct, frozen=True):
    key: str
    user: str
    role: str
    content: Content


@dataclass(frozen=True)
class Tickets:
    """The tickets of one warehouse. Safe for threads."""

    keys: SigningKeys
    warehouse: str
    clock: Clock

    def sign(self, content: Content, principal: Principal) -> bytes:
        key = self.keys.signing(self.clock())
        payload = msgspec.msgpack.encode(_Signed(key.id, principal.user, principal.role, content))
        return self._mac(key.secret, payload) + payload

    def read(self, ticket: bytes, principal: Principal) -> Content:
        """Raises PermissionDenied: it was made for another user or role, by another warehouse, too long ago, or by nobody."""
        size = sha256().digest_size
        mac, payload = ticket[:size], ticket[size:]
        try:
            found = msgspec.msgpack.decode(payload, type=_Signed)
        except msgspec.DecodeError as error:
            raise _refused() from error
        key = self.keys.verifying(found.key, self.clock())
        if key is None or not hmac.compare_digest(mac, self._mac(key.secret, payload)):
            raise _refused()
        if (found.user, found.role) != (principal.user, principal.role):
            raise _refused()
        return found.content

    def statement(self, handle: bytes, principal: Principal) -> StatementTicket:
        """The statement of a handle; raises as `read`, and InvalidArgument where the handle is a ticket of something else."""
        found = self.read(handle, principal)
        if not isinstance(found, StatementTicket):
            raise InvalidArgument("the handle is not a prepared statement's")
        return found

    def _mac(self, secret: bytes, payload: bytes) -> bytes:
        return hmac.digest(secret, b"flight\0" + self.warehouse.encode() + b"\0" + payload, "sha256")


def _refused() -> PermissionDenied:
    return PermissionDenied("the ticket or handle is not one of this user and role, or too old: run the statement again")
