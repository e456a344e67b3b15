"""The URI of a place in deltalake's form. Checked before anything is created, so this does not import deltalake."""

from __future__ import annotations

import re

from lakewarden.errors import Unsupported
from lakewarden.storage.location import local_path

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}|\\")


def delta_uri(uri: str) -> str:
    """Returns the place in deltalake's form.

    Raises:
        Unsupported: the path has a `%` and two hex digits, or a backslash: deltalake decodes them and uses another path.
    """
    path = local_path(uri)
    place = uri if path is None else str(path)
    if _ESCAPE.search(place):
        raise Unsupported(
            f"{place}: deltalake reads a % with two hex digits, and a backslash, as an escape; use a path without them"
        )
    return place
