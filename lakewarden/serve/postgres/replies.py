"""The messages that a server sends, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from lakewarden.serve.postgres.kinds import Kind
from lakewarden.serve.postgres.problems import ProtocolError

AUTHENTICATED = b"R" + struct.pack("!ii", 8, 0)
PASSWORD_WANTED = b"R" + struct.pack("!ii", 8, 3)
"""AuthenticationCleartextPassword."""
PARSED, BOUND, CLOSED, NO_DATA, SUSPENDED, NOTHING_SENT = (
    letter + b"\0\0\0\4" for letter in (b"1", b"2", b"3", b"n", b"s", b"I")
)


def ready(status: bytes) -> bytes:
    """`status` is `I` outside of a block, `T` in one, `E` in one that failed."""
    return _message(b"Z", status)


def parameter(name: str, value: str) -> bytes:
    return _message(b"S", _text(name) + _text(value))


def key(process: int, secret: int) -> bytes:
    return _message(b"K", struct.pack("!ii", process, secret))


def newest_protocol(unknown: Sequence[str]) -> bytes:
    """NegotiateProtocolVersion: 3.0, and none of these options."""
    return _message(b"v", struct.pack("!ii", 0, len(unknown)) + b"".join(map(_text, unknown)))


def complete(tag: str) -> bytes:
    return _message(b"C", _text(tag))


def parameters(kinds: Sequence[Kind]) -> bytes:
    return _message(b"t", struct.pack("!h", len(kinds)) + b"".join(struct.pack("!i", kind.oid) for kind in kinds))


def columns(named: Iterable[tuple[str, Kind, bool]]) -> bytes:
    """RowDescription of names, kinds, and whether each is sent in binary."""
    fields = [
        _text(name) + struct.pack("!ihihih", 0, 0, kind.oid, kind.size, kind.modifier, int(binary))
        for name, kind, binary in named
    ]
    return _message(b"T", struct.pack("!h", len(fields)) + b"".join(fields))


def error(problem: ProtocolError) -> bytes:
    return _message(b"E", _said("FATAL" if problem.fatal else "ERROR", problem.sqlstate, problem.message))


def notice(message: str, severity: str = "NOTICE", sqlstate: str = "00000") -> bytes:
    return _message(b"N", _said(severity, sqlstate, message))


def _said(severity: str, sqlstate: str, message: str) -> bytes:
    fields = (("S", severity), ("V", severity), ("C", sqlstate), ("M", message))
    return b"".join(name.encode() + _text(value) for name, value in fields) + b"\0"


def _text(value: str) -> bytes:
    return value.replace("\0", "").encode(errors="replace") + b"\0"


def _message(letter: bytes, body: bytes) -> bytes:
    return letter + struct.pack("!i", len(body) + 4) + body
