"""Types of DuckDB that Arrow cannot carry: their values are text, so that none changes on its way out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_LOST = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|\b(?:BIGNUM|UHUGEINT|BIT|TIME WITH TIME ZONE)\b""")
"""Names and labels, which stay, and the types: a BIGNUM and a BIT would be bytes of DuckDB's, a UHUGEINT beyond 127 bits
negative, and a time of day without its zone."""


def exact(rows: DuckDBPyRelation) -> DuckDBPyRelation:
    """The same rows, with text for values of such types, also within lists and structs."""
    types = [str(kind) for kind in rows.types]
    fitting = [_LOST.sub(lambda found: found[1] or "VARCHAR", kind) for kind in types]
    if fitting == types:
        return rows
    shown = (
        f"#{at}" if kind == fit else f"CAST(#{at} AS {fit})" for at, (kind, fit) in enumerate(zip(types, fitting, strict=True), 1)
    )
    names = ('"' + name.replace('"', '""') + '"' for name in rows.columns)
    return rows.project(", ".join(f"{each} AS {name}" for each, name in zip(shown, names, strict=True)))
