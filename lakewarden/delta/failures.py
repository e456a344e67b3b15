"""Turns the errors of deltalake and the file system into Lakewarden's.

Most failures of deltalake differ only in their text, and a panic inside it is a BaseException that would end a
task of thousands of scopes: every call of it is inside `delta_errors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import TracebackType

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


class ErrorTranslation:
    """Raises what `translate` makes of an error inside the block; None lets the error itself go on.

    A class, since a data file is read inside four of them: a generator's costs three times as much.
    """

    __slots__ = ("_translate", "_what")

    def __init__(self, what: str, translate: Callable[[str, BaseException], LakewardenError | None]) -> None:
        self._what = what
        self._translate = translate

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and (ours := self._translate(self._what, error)) is not None:
            raise ours from error


def delta_errors(what: str) -> ErrorTranslation:
    """Turns the libraries' errors into ours. `what` begins the message, such as `cannot commit to <uri>`."""
    return ErrorTranslation(what, _of_library)


def file_errors(path: str) -> ErrorTranslation:
    """The same for the bytes of one data file: what no store has failed at is garbled.

    Raises:
        Corrupt: the file is garbled.
    """
    return ErrorTranslation(f"cannot read {path}", _of_file)


def _of_library(what: str, error: BaseException) -> LakewardenError | None:
    match error:
        case LakewardenError():
            return None
        case DeltaError():
            return _delta_error(what, error)
        case OSError():
            return _os_error(what, error)
        case pa.ArrowException():
            return Corrupt(f"{what}: {_plain(error)}")
    # a panic's class cannot be imported: pyo3 makes it inside the extension
    if type(error).__name__ == "PanicException":
        return Corrupt(f"{what}: deltalake panicked on the data there: {_plain(error)}")
    return None


def _of_file(what: str, error: BaseException) -> LakewardenError | None:
    stores = isinstance(error, OSError) and (error.errno is not None or failure_of(str(error)) is not None)
    if isinstance(error, OSError | ValueError | KeyError | TypeError) and not stores:
        return Corrupt(f"{what}: it is garbled: {_plain(error)}")
    return _of_library(what, error)


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
