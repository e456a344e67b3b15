"""The run-time parameters that drivers set and read. What would change an answer is refused; what cannot is kept and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lakewarden.errors import InvalidArgument, Unsupported

SERVER_VERSION = "14.0"
"""The PostgreSQL whose questions are answered; a newer one would be asked about more relations."""

_UTF8 = ("utf8", "utf-8", "unicode", "sql_ascii")
_UTC = ("utc", "gmt", "etc/utc", "z", "0", "+00", "+00:00", "default")

_DEFAULTS: Mapping[str, str] = {
    "server_version": SERVER_VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "application_name": "",
    "is_superuser": "off",
    "session_authorization": "",
    "search_path": "",
    "transaction_isolation": "read committed",
    "default_transaction_isolation": "read committed",
    "transaction_read_only": "off",
    "default_transaction_read_only": "off",
    "transaction_deferrable": "off",
    "default_transaction_deferrable": "off",
    "extra_float_digits": "1",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "client_min_messages": "notice",
    "row_security": "on",
    "synchronous_commit": "on",
    "jit": "off",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "server_version_num": "140000",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_monetary": "C",
    "default_tablespace": "",
    "default_with_oids": "off",
}
_NAMES = {name.lower(): name for name in _DEFAULTS}
_TOLD = (
    *("server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone", "IntervalStyle", "integer_datetimes"),
    *(
        "standard_conforming_strings",
        "application_name",
        "is_superuser",
        "session_authorization",
        "default_transaction_read_only",
    ),
)
_FIXED = frozenset(
    {"server_version", "server_encoding", "integer_datetimes", "is_superuser", "session_authorization", "max_identifier_length"}
    | {"max_index_keys", "server_version_num", "lc_collate", "lc_ctype"}
)
_TAKEN: Mapping[str, Callable[[str], bool]] = {
    "client_encoding": lambda value: value.lower() in _UTF8,
    "DateStyle": lambda value: value.upper().startswith("ISO"),
    "TimeZone": lambda value: value.lower() in _UTC,
    "standard_conforming_strings": lambda value: value.lower() in ("on", "true", "1"),
    "bytea_output": lambda value: value.lower() == "hex",
}
"""The parameters that would change what is answered, with the values that do not."""
_MILLISECONDS = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}


class Variables:
    """Those of one connection."""

    def __init__(self, user: str) -> None:
        self._set: dict[str, str] = {"session_authorization": user}

    def begin(self, given: Mapping[str, str]) -> None:
        """Takes what a startup packet names; of what is not possible the default stays, and `told` says it."""
        for name, value in given.items():
            known = _NAMES.get(name.lower())
            if known is not None and known not in _FIXED and _possible(known, value):
                self._set[known] = value if known not in _TAKEN else _DEFAULTS[known]

    def told(self) -> Iterator[tuple[str, str]]:
        """What a server says of itself at the beginning."""
        return ((name, self.read(name)) for name in _TOLD)

    def shown(self) -> Iterator[tuple[str, str]]:
        """All of them."""
        return ((name, self.read(name)) for name in _DEFAULTS)

    def knows(self, name: str) -> bool:
        return name.lower() in _NAMES

    def read(self, name: str) -> str:
        known = _NAMES[name.lower()]
        return self._set.get(known, _DEFAULTS[known])

    def write(self, name: str, value: str) -> str:
        """Sets one; returns its whole name.

        Raises:
            InvalidArgument: there is no such parameter, or it cannot be set.
            Unsupported: the value would change what is answered.
        """
        known = _NAMES.get(name.lower())
        if known is None or known in _FIXED:
            raise InvalidArgument(f"parameter {name!r} cannot be set here")
        if not _possible(known, value):
            raise Unsupported(f"{known} cannot be {value!r}: values are sent as with {_DEFAULTS[known]!r}")
        if known in ("statement_timeout", "idle_in_transaction_session_timeout"):
            _milliseconds(value)
        self._set[known] = _DEFAULTS[known] if known in _TAKEN or value.lower() == "default" else value
        return known

    def reset(self, name: str) -> None:
        """One, or ALL."""
        kept = {"session_authorization"} | (set() if name.upper() == "ALL" else set(self._set) - {_NAMES.get(name.lower(), "")})
        self._set = {known: value for known, value in self._set.items() if known in kept}

    @property
    def timeout_seconds(self) -> float | None:
        """After which a query is ended; None for no time of the client's own."""
        return self._seconds("statement_timeout")

    @property
    def idle_seconds(self) -> float | None:
        """After which a block without a statement is ended, for the client's part."""
        return self._seconds("idle_in_transaction_session_timeout")

    def _seconds(self, name: str) -> float | None:
        found = _milliseconds(self.read(name))
        return found / 1000 if found else None

    @property
    def read_only(self) -> bool:
        return self.read("default_transaction_read_only").lower() in ("on", "true", "1")


def _possible(known: str, value: str) -> bool:
    return known not in _TAKEN or value.lower() == "default" or _TAKEN[known](value)


def _milliseconds(value: str) -> int:
    number = value.strip().lower().rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = value.strip().lower()[len(number) :].strip()
    if not number.isdecimal() or unit not in _MILLISECONDS:
        raise InvalidArgument(f"{value!r} is not a time: a number of milliseconds, or one with ms, s, min or h")
    return int(number) * _MILLISECONDS[unit]
