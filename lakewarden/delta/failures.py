"""Turns the errors of deltalake and the file system into Lakewarden's.

Most failures of deltalake differ only in their text, and a panic inside it is a BaseException that would end a
task of thousands of scopes: every call of it is inside `delta_errors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakewarden.errors import Corrupt, LakewardenError, NotFound, StorageRefused, StorageUnavailable, Unsupported
from lakewarden.storage.clients import failure_of

_REFUSED = re.compile(r"\(os error (?:1|13|28|30|122)\)|\b40[13]\b|AccessDenied|Forbidden|PermissionDenied|Unauthenticated")
"""EPERM, EACCES, ENOSPC, EROFS, EDQUOT, and the refusals of object stores."""

_ABSENT = re.compile(r"\(os error 2\)|\b404\b|NoSuchKey|NoSuchBucket")
_UNSUPPORTED = re.compile(r"unsupported|not supported|not implemented", re.IGNORECASE)
_NOISE = re.compile(r"\x1b\[\d*m")
_LENGTH = 300


@contextmanager
def delta_errors(what: str) -> Iterator[None]:
    """Turns the libraries' errors into ours. `what` begins the message, such as `cannot commit to <uri>`."""
    try:
        yield
    except LakewardenError:
        raise
    except DeltaError as error:
        raise _delta_error(what, error) from error
    except OSError as error:
        raise _os_error(what, error) from error
    except pa.ArrowException as error:
        raise Corrupt(f"{what}: {_plain(error)}") from error
    except BaseException as error:
        # the panic's class cannot be imported: pyo3 makes it inside the extension
        if type(error).__name__ == "PanicException":
            raise Corrupt(f"{what}: deltalake panicked on the data there: {_plain(error)}") from error
        raise


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """The same for the bytes of one data file: what no store has failed at is garbled.

    Raises:
        Corrupt: the file is garbled.
    """
    what = f"cannot read {path}"
    with delta_errors(what):
        try:
            yield
        except OSError as error:
            if error.errno is not None or failure_of(str(error)) is not None:
                raise
            raise Corrupt(f"{what}: it is garbled: {_plain(error)}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{what}: it is garbled: {_plain(error)}") from error


def _delta_error(what: str, error: DeltaError) -> LakewardenError:
    text = _plain(error)
    if failed := _stores_failure(what, error):
        return failed
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
        return Corrupt(f"{what}: a file that the table names is missing: {text}")
    return StorageUnavailable(f"{what}: {text}")


def _stores_failure(what: str, error: Exception) -> LakewardenError | None:
    """Returns the failure of the store or the network, which deltalake reports inside any kind of error; else None."""
    if (known := failure_of(str(error))) is None:
        return None
    return known.error(f"{what}: {known.reason}")


def _plain(error: BaseException) -> str:
    """Returns the message as one line, without colours or the stack of the library's threads. A long one is cut in its middle,
    where its paths are: what happened stands at its end."""
    text = " ".join(_NOISE.sub("", str(error)).split("\n   0: ")[0].split())
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH // 2]} … {text[-_LENGTH // 2 :]}"
