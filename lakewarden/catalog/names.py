"""Rules for the names of namespaces, tables, columns and storages; and the words for roles and access levels."""

from __future__ import annotations

import re
from typing import Literal

from lakewarden.errors import InvalidArgument

# Roles of sessions, in five levels of trust; and who may see a SHARED table. What they may do is in `access`.
Role = Literal["anonymous", "user", "service", "dba", "system"]
AccessLevel = Literal["PUBLIC", "PRIVATE", "RESTRICTED", "DBA"]

MAX_LENGTH = 64

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NAMESPACE = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_STORAGE_ID = re.compile(r"[A-Za-z0-9_-]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RESERVED_NAMESPACES = _words(
    "system sys root kalamdb kalam main default sql admin internal information_schema pg_catalog datafusion"
)
_RESERVED_COLUMNS = _words("_seq _deleted _id _row_id _rowid _key _updated _created _timestamp _version _hash _commit_seq")
_SQL_WORDS = _words(
    """
    all alter analyse analyze and any array as asc asymmetric between both by case cast check collate column constraint create
    cross current_catalog current_date current_role current_time current_timestamp current_user default deferrable delete desc
    distinct do drop else end except exists false fetch for foreign from full grant group having in initially inner insert
    intersect into is join lateral leading left like limit localtime localtimestamp natural not null offset on only or order
    outer placing primary references returning revoke right select session_user set some symmetric table then to trailing true
    union unique update user using values variadic when where window with
    """
)
"""Words that no SQL parser accepts as a name without quotes."""


def check_namespace(name: str) -> str:
    """A name with `-` is quoted in SQL.

    Raises:
        InvalidArgument: the name breaks the rules, or is reserved.
    """
    if name.lower() in _RESERVED_NAMESPACES:
        raise InvalidArgument(f"namespace name {name!r} is reserved; so are {', '.join(sorted(_RESERVED_NAMESPACES))}")
    return _check("namespace", name, _NAMESPACE, ", '_' and '-'")


def check_table(name: str) -> str:
    """Raises InvalidArgument: the name breaks the rules."""
    return _check("table", name)


def check_column(name: str) -> str:
    """Raises InvalidArgument: the name breaks the rules, or is that of a system column."""
    if name.lower() in _RESERVED_COLUMNS:
        raise InvalidArgument(f"column name {name!r} is reserved; so are {', '.join(sorted(_RESERVED_COLUMNS))}")
    return _check_form("column", name)


def is_sql_word(name: str) -> bool:
    """Whether SQL takes the name of a column in quotes only."""
    return name.lower() in _SQL_WORDS


def check_storage_id(name: str) -> str:
    """Raises InvalidArgument: the id breaks the rules."""
    if not _STORAGE_ID.fullmatch(name) or len(name) > MAX_LENGTH:
        raise InvalidArgument(f"storage id {name[:80]!r} must be 1 to {MAX_LENGTH} ASCII letters, digits, '_' and '-'")
    return name


def _check(kind: str, name: str, form: re.Pattern[str] = _NAME, signs: str = " and '_'") -> str:
    _check_form(kind, name, form, signs)
    if is_sql_word(name):
        raise InvalidArgument(f"{kind} name {name!r} is a reserved word of SQL; choose another, as in {name}_1")
    return name


def _check_form(kind: str, name: str, form: re.Pattern[str] = _NAME, signs: str = " and '_'") -> str:
    if not form.fullmatch(name) or len(name) > MAX_LENGTH:
        raise InvalidArgument(
            f"{kind} name {name[:80]!r} must be 1 to {MAX_LENGTH} ASCII letters, digits{signs}, beginning with a letter"
        )
    return name
