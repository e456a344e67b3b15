"""Path templates of a storage, and the paths that they produce.

Two scopes never share a path and none leaves its place, whatever the ids are: a value is encoded one to
one into safe ASCII, and a template has at most one value in a path segment.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Literal
from urllib.parse import quote

from lakewarden.base.scope import Scope, TableName
from lakewarden.errors import InvalidArgument

Kind = Literal["USER", "SHARED"]
DEFAULT_TEMPLATES: dict[Kind, str] = {"USER": "{namespace}/{tableName}/{userId}", "SHARED": "{namespace}/{tableName}"}
MAX_USER = 256

_MAX_ENCODED = 200
_MAX_LITERAL = 50
"""With a value of at most 200 bytes, this keeps a segment below the 255 bytes that file systems allow."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_LITERAL = re.compile(r"[A-Za-z0-9_@.=-]*")
_PLAIN = re.compile(r"(?!\.)[A-Za-z0-9_@.-]{1,200}")
_PLAIN_FOLDED = re.compile(r"(?!\.)[a-z0-9_@.-]{0,199}[a-z0-9_@-]")
_ORDER = {"namespace": 0, "tableName": 1, "shard": 2, "userId": 3}
_NEEDED: dict[Kind, tuple[str, ...]] = {"USER": ("namespace", "tableName", "userId"), "SHARED": ("namespace", "tableName")}
_ALLOWED: dict[Kind, tuple[str, ...]] = {"USER": tuple(_ORDER), "SHARED": _NEEDED["SHARED"]}
_ALIASES = {
    f"{stem}{mark}{end}": name
    for name, stem, end in (
        ("namespace", "namespace", "id"),
        ("tableName", "table", "name"),
        ("tableName", "table", "id"),
        ("shard", "shard", "id"),
        ("userId", "user", "id"),
    )
    for mark in ("_", "-")
} | {"namespaceId": "namespace", "tableId": "tableName", "shardId": "shard"}
STATE = "_lakewarden"
"""The folder of a warehouse's state."""
_RESERVED = frozenset({"_delta_log", "_files", STATE})


def check_user(user: object) -> str:
    """Returns the user id.

    Raises:
        InvalidArgument: the id is empty, longer than 256 characters, or not valid Unicode text.
    """
    if not isinstance(user, str) or not 1 <= len(user) <= MAX_USER:
        raise InvalidArgument(f"a user id is a text of 1 to {MAX_USER} characters, not {_shortened(user)}")
    try:
        user.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"user id {_shortened(user)} is not valid Unicode: it contains half of a surrogate pair") from error
    return user


def encode(value: str, folds_case: bool) -> str:
    """Encodes any text as a safe path segment of at most 200 bytes; two texts never share one.

    Safe characters stay as they are; every other UTF-8 byte becomes `!` and two hex digits. A result longer than 200
    bytes becomes its first 100, `!!` (which starts no escape) and its SHA-256. Where the place folds case, upper case
    is escaped too, and so is a trailing dot, which such file systems drop.
    """
    if value == "_delta_log":  # no Delta reader opens a table at a path that has this in it
        return "!5fdelta_log"
    if (_PLAIN_FOLDED if folds_case else _PLAIN).fullmatch(value):
        return value
    data = value.encode()
    encoded = "".join(_escapes(folds_case)[byte] for byte in data)
    # A segment `..` would lead out of the directory, and names with a dot in front are hidden ones.
    if encoded.startswith("."):
        encoded = f"!2e{encoded[1:]}"
    if folds_case and encoded.endswith("."):
        encoded = f"{encoded[:-1]}!2e"
    # File systems allow 255 bytes for a name. The hash of the whole value keeps two long ones apart.
    if len(encoded) > _MAX_ENCODED:
        return f"{encoded[:100]}!!{hashlib.sha256(data).hexdigest()}"
    return encoded


def check_template(kind: Kind, template: str) -> str:
    """Returns the template with its placeholders' canonical names; empty means the default one.

    Raises:
        InvalidArgument: a placeholder is missing, unknown, repeated or out of order, two share a path segment, or the
            text around them is not safe in a path.
    """
    if not template:
        return DEFAULT_TEMPLATES[kind]
    canonical = _PLACEHOLDER.sub(lambda match: f"{{{_ALIASES.get(match[1], match[1])}}}", template)
    found = _PLACEHOLDER.findall(canonical)
    _check_placeholders(kind, template, found)
    for segment in canonical.split("/"):
        _check_segment(template, segment)
    return canonical


def scope_path(template: str, scope: Scope, folds_case: bool) -> str:
    """Returns the path of the scope's table below its storage's base. The template has been checked.

    Raises:
        InvalidArgument: the template wants a user and the scope has none, or the other way round.
    """
    wants_user = "{userId}" in template
    if wants_user != (scope.user is not None):
        kind, has = ("USER", "a") if wants_user else ("SHARED", "no")
        raise InvalidArgument(f"{scope.table} is a {kind} table: its scopes have {has} user")
    path = _with_table(template, scope.table, folds_case)
    if scope.user is None:
        return path
    user = check_user(scope.user)
    # The user last: an encoded value has no braces, so it cannot be taken for a placeholder.
    return path.replace("{shard}", shard(user)).replace("{userId}", encode(user, folds_case))


def table_prefix(template: str, table: TableName, folds_case: bool) -> str:
    """Returns the deepest directory that holds all of the table and, since templates are checked, nothing else."""
    path = _with_table(template, table, folds_case)
    return "/".join(path[: path.find("{")].split("/")[:-1]) if "{" in path else path


def without_id(text: str, user: str, mark: str) -> str:
    """Returns the text with `mark` in place of each id that is a word of its own, plain or as paths and URIs spell it."""
    return _replaced(text, user, mark, "(?<![0-9A-Za-z_])", "(?![0-9A-Za-z_])")


def without_name(text: str, user: str, mark: str) -> str:
    """Returns the same, only where the text names a user: in a path, brackets or quotes. The id may be a common word."""
    return _replaced(text, user, mark, r"(?<=[/\['\"])", r"(?=[/\]'\"])")


def _replaced(text: str, user: str, mark: str, before: str, after: str) -> str:
    # As every place may spell it: plain in messages, encoded in paths, quoted in URIs.
    for spelled in {user, encode(user, folds_case=False), encode(user, folds_case=True), quote(user, safe="")}:
        text = re.sub(before + re.escape(spelled) + after, mark, text)
    return text


def shard(user: str) -> str:
    """Two hex digits that spread users evenly over 256 directories."""
    return hashlib.sha256(user.encode()).hexdigest()[:2]


@lru_cache(maxsize=2)
def _escapes(folds_case: bool) -> tuple[str, ...]:
    letters = "abcdefghijklmnopqrstuvwxyz" + ("" if folds_case else "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    plain = frozenset(f"{letters}0123456789_-.@".encode())
    return tuple(chr(byte) if byte in plain else f"!{byte:02x}" for byte in range(256))


@lru_cache(maxsize=1024)
def _with_table(template: str, table: TableName, folds_case: bool) -> str:
    named = template.replace("{namespace}", encode(table.namespace, folds_case))
    return named.replace("{tableName}", encode(table.name, folds_case))


def _check_placeholders(kind: Kind, template: str, found: list[str]) -> None:
    allowed = ", ".join(f"{{{name}}}" for name in _ALLOWED[kind])
    where = f"{kind} template {template!r}"
    for name in found:
        if name not in _ALLOWED[kind]:
            raise InvalidArgument(f"{where} has the placeholder {{{name}}}; only {allowed} are allowed")
    missing = [f"{{{name}}}" for name in _NEEDED[kind] if name not in found]
    if missing:
        raise InvalidArgument(f"{where} lacks {', '.join(missing)}; it should look like {DEFAULT_TEMPLATES[kind]}")
    if len(set(found)) < len(found):
        raise InvalidArgument(f"{where} repeats a placeholder; each may appear once")
    if found != sorted(found, key=_ORDER.__getitem__):
        raise InvalidArgument(f"{where} has its placeholders out of order; the right order is {allowed}")


def _check_segment(template: str, segment: str) -> None:
    where = f"template {template!r}, part {segment!r}"
    literal, values = _PLACEHOLDER.subn("", segment)
    # `a` and `bc` would meet `ab` and `c`.
    if values > 1:
        raise InvalidArgument(
            f"{where}: with two placeholders in one part, two scopes can get the same path; put a '/' between them"
        )
    if not _LITERAL.fullmatch(literal):
        raise InvalidArgument(
            f"{where}: text around placeholders may only contain ASCII letters, digits, '_', '-', '.', '@' and '='"
        )
    if not segment or segment.startswith(".") or segment in _RESERVED:
        raise InvalidArgument(f"{where}: a part must not be empty, begin with '.', or be one of {', '.join(sorted(_RESERVED))}")
    if len(literal) > _MAX_LITERAL:
        raise InvalidArgument(f"{where}: more than {_MAX_LITERAL} characters of text beside the placeholder")


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(value)} characters)" if isinstance(value, str) else f"{text[:60]}…"
