"""A place as deltalake takes it. Asked before anything is made there, so it loads nothing of deltalake."""

from __future__ import annotations

import re

from lakewarden.errors import Unsupported
from lakewarden.storage.location import local_path

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}|\\")


def delta_uri(uri: str) -> str:
    """The place as deltalake takes it.

    Raises:
        Unsupported: the path has a `%` and two hex digits, or a backslash: deltalake decodes them and goes elsewhere.
    """
    path = local_path(uri)
    place = uri if path is None else str(path)
    if _ESCAPE.search(place):
        raise Unsupported(f"{place}: deltalake takes a % with two hex digits, and a backslash, for an escape; use a path without")
    return place
