"""Gives the fields of an object names that the catalog takes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from lakewarden.catalog.names import MAX_LENGTH, check_column, is_sql_word
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.templates.template import Columns


def column_names(given: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """One name for each field. The table's own name counts where they differ only in case.

    A name that the catalog refuses is changed: other characters than ASCII letters, digits and `_` become one `_`, it gets `c_`
    in front where it does not begin with a letter, `_1` behind it where it is reserved; an empty one is `column_` with its place.

    Raises:
        InvalidArgument: two fields get the same name.
    """
    own = {name.lower(): name for name in columns}
    taken: dict[str, str] = {}
    names = []
    for place, field in enumerate(given, 1):
        made = _allowed(field, place)
        name = own.get(field.lower()) or own.get(made.lower(), made)
        if (other := taken.get(name.lower())) is not None:
            raise InvalidArgument(f"two columns have the name {name!r}: {other[:80]!r} and {field[:80]!r}")
        taken[name.lower()] = field
        names.append(name)
    return tuple(names)


def _allowed(field: str, place: int) -> str:
    try:
        return _check(field)
    except InvalidArgument:
        plain = unicodedata.normalize("NFKD", field[:1000])
        name = re.sub(r"[^A-Za-z0-9]+", "_", re.sub(r"[\u0300-\u036f]", "", plain)).strip("_")
        if not name:
            return f"column_{place}"
        name = (name if name[0].isalpha() else f"c_{name}")[: MAX_LENGTH - 2].rstrip("_")
        try:
            return _check(name)
        except InvalidArgument:
            return f"{name}_1"


def _check(name: str) -> str:
    """As `check_column`, and no word that each query would have to quote."""
    if is_sql_word(name):
        raise InvalidArgument(f"{name} is a reserved word")
    return check_column(name)
