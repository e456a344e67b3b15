"""URIs of places: which store a URI means, and whether one place contains another.

A place is a directory (a plain path, or `file://`) or a prefix of a bucket. A URI is printed, logged and stored, so it
holds no credential.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lakewarden.errors import InvalidArgument, Unsupported

_S3 = frozenset({"s3", "s3a"})
_AZURE = frozenset({"az", "abfs", "abfss"})
REMOTE = _S3 | _AZURE | {"gs", "memory"}
_BUCKET = re.compile(r"[A-Za-z0-9](?!.*\.\.)[A-Za-z0-9._-]*")
"""Wide enough for every platform; the platform checks the rest. A name with `..` would lead to another bucket."""
_CONTAINER = re.compile(rf"{_BUCKET.pattern}(@{_BUCKET.pattern})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Stores refuse these in names, and they would break a message in lines; half a surrogate pair is a byte that is no UTF-8."""
_EXAMPLES = "a directory, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or abfss://container@account/prefix"

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}|\\")
"""What deltalake reads as an escape in a path."""


def canonical(uri: str) -> str:
    """Returns the one spelling of a place: an absolute path, or `scheme://bucket/prefix` without a trailing slash.

    Raises:
        InvalidArgument: the scheme is unknown, the bucket is missing, or the URI holds a credential.
    """
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return _directory(uri, uri)
    if scheme.lower() == "file":
        return _directory(uri, _file_path(uri))
    return _remote(uri, scheme.lower())


def local_path(uri: str) -> Path | None:
    """Returns the directory that a canonical or hand-written URI means; None for object stores."""
    return _path(uri if uri.startswith("/") or "://" in uri else canonical(uri))


@lru_cache(maxsize=1024)
def _path(absolute: str) -> Path | None:
    """The work on one scope needs it a dozen times."""
    place = canonical(absolute)
    return None if "://" in place else Path(place)


def bucket_uri(uri: str) -> str:
    """Returns `scheme://bucket` of a canonical place in an object store."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def join(base_uri: str, relative: str) -> str:
    """Returns the place below another one. `relative` is `/`-separated; empty means the base itself."""
    return f"{base_uri.rstrip('/')}/{relative}" if relative else base_uri


def overlaps(one: str, other: str, folds_case: bool = False) -> bool:
    """Returns whether two canonical places are the same, or one is inside the other. Follows links of a local disk."""
    return within(one, other, folds_case) or within(other, one, folds_case)


def within(inner: str, outer: str, folds_case: bool = False) -> bool:
    """Returns whether a canonical place is another one, or below it. Follows links of a local disk."""
    # With a slash behind both, so that `/srv/lake2` is not inside `/srv/lake`.
    first, second = (f"{(place if '://' in place else os.path.realpath(place)).rstrip('/')}/" for place in (inner, outer))
    return first.casefold().startswith(second.casefold()) if folds_case else first.startswith(second)


def _directory(uri: str, path: str) -> str:
    if not path or _CONTROL.search(path):
        raise InvalidArgument(f"{uri!r} does not name a place; it should be {_EXAMPLES}, in UTF-8")
    return os.path.abspath(path)  # links are not resolved: people see the path that they wrote


def _file_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise InvalidArgument(f"{uri!r} is not a local file URI; it should look like file:///srv/lake")
    return unquote(parts.path)


def _remote(uri: str, scheme: str) -> str:
    if scheme not in REMOTE:
        raise InvalidArgument(f"{_masked(uri)!r} has the unknown scheme {scheme!r}; it should be {_EXAMPLES}")
    authority, _, prefix = uri.partition("://")[2].partition("/")
    # `user:secret@host` is how URIs carry credentials; only Azure has an `@` between container and account.
    if ":" in authority or ("@" in authority and scheme not in _AZURE) or "?" in uri or "#" in uri:
        raise InvalidArgument(
            f"{_masked(uri)!r} must not contain a credential, port, '?' or '#': set those as options of a storage"
        )
    # Empty parts go: `s3://b//p` and `s3://b/p` would be two places of one.
    parts = [part for part in prefix.split("/") if part]
    bucket = _CONTAINER if scheme in _AZURE else _BUCKET
    if not bucket.fullmatch(authority) or "." in parts or ".." in parts or _CONTROL.search(prefix):
        raise InvalidArgument(f"{uri!r} does not name a place in a bucket; it should be {_EXAMPLES}")
    return "/".join([f"{'s3' if scheme in _S3 else scheme}://{authority}", *parts])


def _masked(uri: str) -> str:
    """Returns the URI for a message, without the part that may be a secret."""
    scheme, _, rest = uri.partition("://")
    authority, slash, path = rest.partition("?")[0].partition("#")[0].partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def delta_uri(uri: str) -> str:
    """Returns the place in deltalake's form. Checked before anything is created, so this does not import deltalake.

    Raises:
        Unsupported: the path has a `%` and two hex digits, or a backslash: deltalake decodes them and uses another path.
    """
    path = local_path(uri)
    place = uri if path is None else str(path)
    if _ESCAPE.search(place):
        raise Unsupported(
            f"{place}: deltalake reads a % with two hex digits, and a backslash, as an escape; use a path without them"
        )
    return place
