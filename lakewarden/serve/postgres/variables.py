"""The run-time parameters that drivers set and read. What would change an answer is refused; what cannot is kept and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lakewarden.errors import InvalidArgument, Unsupported

SERVER_VERSION = "14.0"
"""The PostgreSQL whose questions are answered; a newer one would be asked about more relations."""

_UTF8 = ("utf8", "utf-8", "unicode", "sql_ascii")
_UTC = ("utc", "gmt", "etc/utc", "z", "0", "+00", "+00:00", "default")


@dataclass(frozen=True)
class Parameter:
    """A run-time parameter."""

    default: str
    reported: bool = False
    """Whether a server says it of itself at the beginning."""
    fixed: bool = False
    takes: Callable[[str], bool] | None = None
    """Of one that would change what is answered: whether a value does not."""

    def is_possible(self, value: str) -> bool:
        return self.takes is None or value.lower() == "default" or self.takes(value)

    def kept(self, value: str) -> str:
        """What a value that is possible is shown as."""
        return value if self.takes is None else self.default


def _is_on(value: str) -> bool:
    return value.lower() in ("on", "true", "1")


_PARAMETERS: Mapping[str, Parameter] = {
    "server_version": Parameter(SERVER_VERSION, reported=True, fixed=True),
    "server_encoding": Parameter("UTF8", reported=True, fixed=True),
    "client_encoding": Parameter("UTF8", reported=True, takes=lambda value: value.lower() in _UTF8),
    "DateStyle": Parameter("ISO, MDY", reported=True, takes=lambda value: value.upper().startswith("ISO")),
    "TimeZone": Parameter("UTC", reported=True, takes=lambda value: value.lower() in _UTC),
    "IntervalStyle": Parameter("postgres", reported=True),
    "integer_datetimes": Parameter("on", reported=True, fixed=True),
    "standard_conforming_strings": Parameter("on", reported=True, takes=_is_on),
    "bytea_output": Parameter("hex", takes=lambda value: value.lower() == "hex"),
    "application_name": Parameter("", reported=True),
    "is_superuser": Parameter("off", reported=True, fixed=True),
    "session_authorization": Parameter("", reported=True, fixed=True),
    "search_path": Parameter(""),
    "transaction_isolation": Parameter("read committed"),
    "default_transaction_isolation": Parameter("read committed"),
    "transaction_read_only": Parameter("off"),
    "default_transaction_read_only": Parameter("off", reported=True),
    "transaction_deferrable": Parameter("off"),
    "default_transaction_deferrable": Parameter("off"),
    "extra_float_digits": Parameter("1"),
    "statement_timeout": Parameter("0"),
    "lock_timeout": Parameter("0"),
    "idle_in_transaction_session_timeout": Parameter("0"),
    "client_min_messages": Parameter("notice"),
    "row_security": Parameter("on"),
    "synchronous_commit": Parameter("on"),
    "jit": Parameter("off"),
    "max_identifier_length": Parameter("63", fixed=True),
    "max_index_keys": Parameter("32", fixed=True),
    "server_version_num": Parameter("140000", fixed=True),
    "lc_collate": Parameter("C", fixed=True),
    "lc_ctype": Parameter("C", fixed=True),
    "lc_monetary": Parameter("C"),
    "default_tablespace": Parameter(""),
    "default_with_oids": Parameter("off"),
}
_NAMES = {name.lower(): name for name in _PARAMETERS}
_MILLISECONDS = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}


class Variables:
    """Those of one connection."""

    def __init__(self, user: str) -> None:
        self._set: dict[str, str] = {"session_authorization": user}

    def begin(self, given: Mapping[str, str]) -> None:
        """Takes what a startup packet names; of what is not possible the default stays, and `reported` says it."""
        for name, value in given.items():
            known = _NAMES.get(name.lower())
            if known is not None and not (it := _PARAMETERS[known]).fixed and it.is_possible(value):
                self._set[known] = it.kept(value)

    def reported(self) -> Iterator[tuple[str, str]]:
        """What a server says of itself at the beginning."""
        return ((name, self.read(name)) for name, it in _PARAMETERS.items() if it.reported)

    def shown(self) -> Iterator[tuple[str, str]]:
        """All of them."""
        return ((name, self.read(name)) for name in _PARAMETERS)

    def knows(self, name: str) -> bool:
        return name.lower() in _NAMES

    def read(self, name: str) -> str:
        known = _NAMES[name.lower()]
        return self._set.get(known, _PARAMETERS[known].default)

    def write(self, name: str, value: str) -> str:
        """Sets one; returns its whole name.

        Raises:
            InvalidArgument: there is no such parameter, or it cannot be set.
            Unsupported: the value would change what is answered.
        """
        known = _NAMES.get(name.lower())
        if known is None or (it := _PARAMETERS[known]).fixed:
            raise InvalidArgument(f"parameter {name!r} cannot be set here")
        if not it.is_possible(value):
            raise Unsupported(f"{known} cannot be {value!r}: values are sent as with {it.default!r}")
        if known in ("statement_timeout", "idle_in_transaction_session_timeout"):
            _milliseconds(value)
        self._set[known] = it.default if value.lower() == "default" else it.kept(value)
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
        return _is_on(self.read("default_transaction_read_only"))


def _milliseconds(value: str) -> int:
    number = value.strip().lower().rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = value.strip().lower()[len(number) :].strip()
    if not number.isdecimal() or unit not in _MILLISECONDS:
        raise InvalidArgument(f"{value!r} is not a time: a number of milliseconds, or one with ms, s, min or h")
    return int(number) * _MILLISECONDS[unit]
