"""Translates DuckDB's errors, and decides which of them may have ended the database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakewarden.errors import BadSyntax, InvalidArgument, PermissionDenied, Unsupported
from lakewarden.sql.query_engine.engine import Limits

_DEADLY = ("FATAL", "INTERNAL", "Connection")
"""How DuckDB's messages begin if the database may have ended."""

_BY_ANOTHER = re.compile("invalidated because of a previous fatal error|connection (already )?closed", re.IGNORECASE)


@contextmanager
def as_ours(limits: Limits, memory_bytes: int) -> Iterator[None]:
    """Translates DuckDB's errors. All are about the query: nothing else can fail there."""
    import duckdb  # takes a sixth of a second, which statements without a query do not need

    try:
        yield
    except duckdb.ParserException as error:
        raise BadSyntax(said(error)) from error
    except duckdb.InterruptException as error:
        raise stopped(limits) from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise too_large(memory_bytes) from error
    except OSError as error:  # once rows stream, pyarrow raises this for every error, with DuckDB's message
        words = said(error)
        interrupted, exhausted = words.startswith("INTERRUPT"), words.startswith("Out of Memory")
        raise (stopped(limits) if interrupted else too_large(memory_bytes) if exhausted else InvalidArgument(words)) from error
    except duckdb.PermissionException as error:
        raise PermissionDenied(said(error)) from error
    except (duckdb.NotImplementedException, duckdb.InternalException, duckdb.FatalException) as error:
        raise Unsupported(f"DuckDB cannot run this query: {said(error)}") from error
    except (duckdb.Error, UnicodeError, pa.ArrowException) as error:
        raise InvalidArgument(said(error)) from error


def may_have_ended(error: BaseException) -> bool:
    """Whether the database may have ended and must be probed: DuckDB refuses all work after an internal fault."""
    return said(error).startswith(_DEADLY)


def ended_by_another(error: BaseException) -> bool:
    """Whether another query ended the database."""
    return _BY_ANOTHER.search(str(error)) is not None


def said(error: BaseException) -> str:
    """The first line of the message: the rest quotes the rewritten text, which the user did not write."""
    return (str(error).splitlines() or ["no reason given"])[0].strip()


def stopped(limits: Limits) -> Unsupported:
    """Why a query was interrupted.

    Raises:
        Canceled: it was cancelled.
    """
    limits.cancellation.check()
    return too_long(limits)


def too_long(limits: Limits) -> Unsupported:
    return Unsupported(f"the query took longer than {limits.seconds:g} seconds (sql.timeout_seconds)")


def too_large(memory_bytes: int) -> Unsupported:
    return Unsupported(
        f"the query needs more memory than is left of the {memory_bytes:,} bytes for all queries of this process"
        " (sql.memory_bytes)"
    )
