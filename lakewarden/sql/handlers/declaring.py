"""What CREATE TABLE declares, as names and options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lakewarden.errors import InvalidArgument
from lakewarden.sql.statements.base import Pairs
from lakewarden.sql.statements.tables import CreateTable


def declared(statement: CreateTable, names: Sequence[str]) -> list[str]:
    """The columns as declared: names in SQL ignore case."""
    columns = {column.name.lower(): column.name for column in statement.columns}
    return [columns.get(name.lower(), name) for name in names]


def options_of(pairs: Pairs) -> dict[str, str]:
    """Raises:
    InvalidArgument: an option is given twice.
    """
    twice = [key for key, count in Counter(key.upper() for key, _ in pairs).items() if count > 1]
    if twice:
        raise InvalidArgument(f"option {twice[0]} is given twice")
    return dict(pairs)
