"""Errors as PostgreSQL has them, those of its protocol among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from lakewarden.errors import DuplicateKey, LakewardenError, MissingValue, TableNotFound
from lakewarden.serve.authority import RequestDeclined
from lakewarden.serve.refusals import STATUSES, Refusal
from lakewarden.sql.session_block import FailedBlock, IdleBlock, NoBlock, NoSavepoint, ReadOnlyBlock

CANCELED = "57014"
IDLE_BLOCK = "25P03"
READ_ONLY = "25006"
NO_DATABASE = "3D000"
NO_STATEMENT, NO_PORTAL, PORTAL_THERE = "26000", "34000", "42P03"
PROTOCOL = "08P01"
SHUTDOWN = "57P01"
TOO_MANY = "53300"
TOO_MUCH = "54000"
WRONG_USER = "28000"

_OWN: Mapping[type[LakewardenError], str] = {
    DuplicateKey: "23505",
    MissingValue: "23502",
    TableNotFound: "42P01",
    FailedBlock: "25P02",
    IdleBlock: IDLE_BLOCK,
    NoBlock: "25P01",
    NoSavepoint: "3B001",
    ReadOnlyBlock: READ_ONLY,
}
"""Errors that PostgreSQL tells apart from others of their code."""


class ProtocolError(Exception):
    """An error that the client gets. A fatal one ends the connection."""

    def __init__(self, sqlstate: str, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.fatal = fatal


def problem_of(error: LakewardenError | RequestDeclined, *, fatal: bool = False) -> ProtocolError:
    found = Refusal.of(error)
    sqlstate = next((state for kind, state in _OWN.items() if isinstance(error, kind)), found.statuses.sqlstate)
    return ProtocolError(sqlstate, found.message, fatal=fatal)


@contextmanager
def as_problem() -> Iterator[None]:
    """Our errors in the block become faults; any other is INTERNAL, which leaves the connection as it is."""
    try:
        yield
    except LakewardenError as error:
        raise problem_of(error) from error
    except (ValueError, TypeError, ArithmeticError, NotImplementedError) as error:  # a value of a result that has no form here
        raise ProtocolError(STATUSES["INTERNAL"].sqlstate, f"a value has no form in PostgreSQL's protocol: {error}") from error
