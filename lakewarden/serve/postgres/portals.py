"""Prepared statements, the portals that run them, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakewarden.errors import InvalidArgument
from lakewarden.serve.postgres.wire.kinds import Kind
from lakewarden.sql.grammar.parameters import Value
from lakewarden.sql.parse import Single
from lakewarden.sql.results import ResultRows


@dataclass(frozen=True)
class AnswerColumn:
    """A column of an answer as it was described."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class CommandOutcome:
    """What a statement did: its command tag, and its rows if it has some."""

    tag: str
    rows: ResultRows | None = None
    notices: tuple[str, ...] = ()
    changed: str | None = None
    """The run-time parameter that was set."""


@dataclass(frozen=True)
class PreparedStatement:
    """A parsed statement; `single` is None for an empty text."""

    single: Single | None
    kinds: tuple[Kind, ...] = ()
    """Of its parameters."""
    columns: tuple[AnswerColumn, ...] | None = None
    """Of its answer, as a client was told them; None before that."""


@dataclass
class Portal:
    """A statement with its values, and how far its rows were sent."""

    single: Single | None
    values: Sequence[Value]
    formats: Sequence[int]
    columns: tuple[AnswerColumn, ...] | None = None
    size: int = 0
    """Bytes of the message that made it."""
    outcome: CommandOutcome | None = None
    sent: int = 0

    @property
    def waiting(self) -> int:
        """Bytes of rows that are kept to be sent."""
        return 0 if self.outcome is None or self.outcome.rows is None else self.outcome.rows.table.nbytes

    def finish(self) -> None:
        """Lets go of its rows: all were sent."""
        if self.outcome is not None and self.outcome.rows is not None:
            empty = self.outcome.rows.table.schema.empty_table()
            self.outcome, self.sent = replace(self.outcome, rows=replace(self.outcome.rows, table=empty)), 0

    def binary(self, columns: int) -> list[bool]:
        """Whether each of so many columns is sent in binary.

        Raises:
            InvalidArgument: the client gave another number of formats.
        """
        if len(self.formats) <= 1:
            return [bool(self.formats and self.formats[0])] * columns
        if len(self.formats) != columns:
            raise InvalidArgument(f"{len(self.formats)} formats are given for {columns} columns")
        return [bool(each) for each in self.formats]
