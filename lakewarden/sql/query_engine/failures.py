"""DuckDB's errors as ours, and which of them end the database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakewarden.errors import BadSyntax, InvalidArgument, PermissionDenied, Unsupported
from lakewarden.sql.query_engine.engine import Limits

_DEADLY = ("FATAL", "INTERNAL", "Connection")
"""How DuckDB's messages begin where the database may have ended."""

_BY_ANOTHER = re.compile("invalidated because of a previous fatal error|connection (already )?closed", re.IGNORECASE)


@contextmanager
def as_ours(limits: Limits, memory_bytes: int) -> Iterator[None]:
    """All errors of DuckDB are about the query: nothing else could fail in there."""
    import duckdb  # a sixth of a second that statements without a query need not spend

    try:
        yield
    except duckdb.ParserException as error:
        raise BadSyntax(said(error)) from error
    except duckdb.InterruptException as error:
        raise _too_long(limits) from error
    except duckdb.OutOfMemoryException as error:
        raise _too_large(memory_bytes) from error
    except OSError as error:  # once rows flow, pyarrow makes this of every error, with DuckDB's words
        words = said(error)
        interrupted, exhausted = words.startswith("INTERRUPT"), words.startswith("Out of Memory")
        raise (_too_long(limits) if interrupted else _too_large(memory_bytes) if exhausted else InvalidArgument(words)) from error
    except duckdb.PermissionException as error:
        raise PermissionDenied(said(error)) from error
    except (duckdb.NotImplementedException, duckdb.InternalException, duckdb.FatalException) as error:
        raise Unsupported(f"DuckDB cannot run this query: {said(error)}") from error
    except (duckdb.Error, UnicodeError, pa.ArrowException) as error:
        raise InvalidArgument(said(error)) from error


def may_have_ended(error: BaseException) -> bool:
    """Whether it is worth a look if the database still answers: DuckDB refuses all work after a fault within itself."""
    return said(error).startswith(_DEADLY)


def ended_by_another(error: BaseException) -> bool:
    """Whether the query that failed is not the one that ended the database."""
    return _BY_ANOTHER.search(str(error)) is not None


def said(error: BaseException) -> str:
    """The message alone: what follows it shows the rewritten text, which nobody wrote."""
    return (str(error).splitlines() or ["no reason given"])[0].strip()


def _too_long(limits: Limits) -> Unsupported:
    return Unsupported(f"the query took longer than {limits.seconds:g} seconds (sql.timeout_seconds)")


def _too_large(memory_bytes: int) -> Unsupported:
    return Unsupported(
        f"the query needs more memory than is left of the {memory_bytes:,} bytes for all queries of this process"
        " (sql.memory_bytes)"
    )
