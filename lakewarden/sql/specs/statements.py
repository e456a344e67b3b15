"""The properties of each SQL statement, in one table that the parser, the gate, the execution and the reference read."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.sql.results import ResultRows
from lakewarden.sql.specs.definitions import DEFINITIONS
from lakewarden.sql.specs.rows import ROWS
from lakewarden.sql.specs.spec import (
    Grammar,
    StatementSpec,
)
from lakewarden.sql.specs.upkeep import UPKEEP
from lakewarden.sql.statements.base import Statement
from lakewarden.sql.statements.others import ExecuteAs

STATEMENTS: Mapping[type[Statement], StatementSpec] = {**DEFINITIONS, **ROWS, **UPKEEP}


def gives_rows(statement: Statement) -> bool:
    """Whether the statement answers with rows, and changes nothing."""
    if isinstance(statement, ExecuteAs):
        return gives_rows(statement.statement)
    spec = STATEMENTS.get(type(statement))
    return spec is not None and (spec.result is ResultRows or getattr(statement, "dry_run", False))


def grammars() -> dict[str, dict[str, Grammar]]:
    """What reads a statement, by its first word and by all the words that it begins with: longer ones first."""
    found = {words: grammar for spec in STATEMENTS.values() for words, grammar in spec.begins.items()}
    made: dict[str, dict[str, Grammar]] = {}
    for words in sorted(found, key=lambda one: -len(one.split())):
        made.setdefault(words.split()[0], {})[words] = found[words]
    return made


def objects(verb: str) -> tuple[str, ...]:
    """The kinds of objects that a verb such as CREATE takes."""
    kinds = (words.split()[-1] for spec in STATEMENTS.values() for words in spec.begins if words.split()[0] == verb)
    return tuple(dict.fromkeys(kind for kind in kinds if kind != "REPLACE"))
