"""Reads a length of time such as `7 d` or `24 h`."""

from __future__ import annotations

import re

from lakewarden.errors import InvalidArgument

_FORM = re.compile(r"(\d{1,9})\s*([a-z]*)")
_UNITS = {
    1: ("", "s", "sec", "secs", "second", "seconds"),
    60: ("m", "min", "mins", "minute", "minutes"),
    3_600: ("h", "hour", "hours"),
    86_400: ("d", "day", "days"),
}
_SECONDS = {name: seconds for seconds, names in _UNITS.items() for name in names}


def seconds_of(option: str, text: str) -> int:
    """The seconds that a text means.

    Raises:
        InvalidArgument: it is not a length of time, or is 0.
    """
    found = _FORM.fullmatch(text.strip().lower())
    if found is None or found[2] not in _SECONDS or int(found[1]) == 0:
        raise InvalidArgument(f"{option} {text!r} is not a length of time above 0; write it as '7 d', '24 h', '30 min' or '90 s'")
    return int(found[1]) * _SECONDS[found[2]]
