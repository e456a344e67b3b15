"""The one place where deltalake's and the file system's errors become ours.

deltalake tells most of its failures apart by text alone, and a panic inside it is a BaseException that would end a
task of thousands of scopes: whatever calls it, calls it inside `delta_errors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from lakewarden.errors import Conflict, Corrupt, LakewardenError, NotFound, StorageRefused, StorageUnavailable, Unsupported
from lakewarden.storage.failures import failure_of

_RACE = re.compile(r"Failed to commit transaction: \d+$|concurrent|already exist", re.IGNORECASE)
"""A lost race. `Failed to commit transaction: 0` is what zero allowed retries say when another commit came between."""

_REFUSED = re.compile(r"\(os error (?:1|13|28|30|122)\)|\b40[13]\b|AccessDenied|Forbidden|PermissionDenied|Unauthenticated")
"""EPERM, EACCES, ENOSPC, EROFS, EDQUOT, and how object stores say no."""

_ABSENT = re.compile(r"\(os error 2\)|\b404\b|NoSuchKey|NoSuchBucket")
_UNSUPPORTED = re.compile(r"unsupported|not supported|not implemented", re.IGNORECASE)
_NOISE = re.compile(r"\x1b\[\d*m")
_LENGTH = 300


@contextmanager
def delta_errors(what: str) -> Iterator[None]:
    """Turns the libraries' errors into ours; `what` is the beginning of the sentence, as `cannot commit to <uri>`."""
    try:
        yield
    except LakewardenError:
        raise
    except CommitFailedError as error:
        raise _commit_failed(what, error) from error
    except DeltaError as error:
        raise _delta_error(what, error) from error
    except OSError as error:
        raise _os_error(what, error) from error
    except pa.ArrowException as error:
        raise Corrupt(f"{what}: {_plain(error)}") from error
    except BaseException as error:
        # the panic's class cannot be imported: pyo3 makes it inside the extension
        if type(error).__name__ == "PanicException":
            raise Corrupt(f"{what}: deltalake panicked on what lies there: {_plain(error)}") from error
        raise


def _commit_failed(what: str, error: CommitFailedError) -> LakewardenError:
    text = _plain(error)
    if failed := _stores_failure(what, error):
        return failed
    if _RACE.search(text):
        return Conflict(f"{what}: another commit came between; nothing was changed, try again")
    return Unsupported(f"{what}: {text}")


def _delta_error(what: str, error: DeltaError) -> LakewardenError:
    text = _plain(error)
    if failed := _stores_failure(what, error):
        return failed
    if _RACE.search(text):
        return Conflict(f"{what}: a table came to be there meanwhile; nothing was changed, try again")
    if isinstance(error, TableNotFoundError):
        return NotFound(f"{what}: {text}")
    if _UNSUPPORTED.search(text):
        return Unsupported(f"{what}: {text}")
    return Corrupt(f"{what}: {text}")


def _os_error(what: str, error: OSError) -> LakewardenError:
    text = _plain(error) if error.errno is None else f"{error.strerror} (os error {error.errno})"
    if error.errno is None and (failed := _stores_failure(what, error)):
        return failed
    if _REFUSED.search(text):
        return StorageRefused(f"{what}: {text}")
    if _ABSENT.search(text):
        return Corrupt(f"{what}: something that the table names is missing: {text}")
    return StorageUnavailable(f"{what}: {text}")


def _stores_failure(what: str, error: Exception) -> LakewardenError | None:
    """What the store or the network did, which deltalake tells inside errors of any kind; None where it was neither."""
    if (known := failure_of(str(error))) is None:
        return None
    return known.error(f"{what}: {known.reason}")


def _plain(error: BaseException) -> str:
    """One line, without colours, without the stack of the library's own threads."""
    text = _NOISE.sub("", str(error)).split("\n   0: ")[0]
    return " ".join(text.split())[:_LENGTH]
