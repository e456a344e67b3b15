"""The options of a pipeline, as `CREATE SHARED TABLE … FROM TEMPLATE … WITH (…)`, `ALTER RULE` and K3's calls give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from lakewarden.catalog.model import IngestRule, MissingColumns
from lakewarden.catalog.names import check_column
from lakewarden.catalog.options import option_named, parse_bytes
from lakewarden.errors import InvalidArgument
from lakewarden.ingest.pipelines.rules import check_glob, check_mime_type
from lakewarden.ingest.templates.options import given_options, list_of, option_names
from lakewarden.ingest.templates.template import Template

RULE_KEYS = ("GLOBS", "EXCLUDES", "MIME_TYPES", "MIN_SIZE", "MAX_SIZE", "ENABLED")
PIPELINE_KEYS = ("SOURCE", "PRIMARY_KEY", "PARTITION_BY", "MISSING_COLUMNS")
_MOST = 1_000
"""Entries of a list."""


@dataclass(frozen=True)
class Declaration:
    """The options by what they are about."""

    source: str | None
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    missing_columns: MissingColumns
    rule: Mapping[str, object]
    table: Mapping[str, object]
    template: Mapping[str, object]


def declared(template: Template[Any], given: Mapping[str, object]) -> Declaration:
    """Sorts and checks the options; keys in any case. An option of the template that is also one of a table is the template's.

    Raises:
        InvalidArgument: an option is unknown, given twice, or has a bad value.
    """
    own: dict[str, object] = {}
    rule: dict[str, object] = {}
    table: dict[str, object] = {}
    rest: dict[str, object] = {}
    theirs = option_names(template)
    for key, value in given.items():
        name = key.strip().upper()
        kind = own if name in PIPELINE_KEYS else rule if name in RULE_KEYS else None
        if kind is None:
            kind = table if option_named(name) is not None and name.lower() not in theirs else rest
        if name in kind or name.lower() in kind:
            raise InvalidArgument(f"option {key} is given twice")
        kind[name.lower() if kind is rest else name] = value
    _check_known(template, rest)
    return Declaration(
        source=None if own.get("SOURCE") is None else str(own["SOURCE"]),
        primary_key=_columns("PRIMARY_KEY", own.get("PRIMARY_KEY", ())),
        partition_by=_columns("PARTITION_BY", own.get("PARTITION_BY", ())),
        missing_columns=_missing_columns(own.get("MISSING_COLUMNS", "null" if template.sparse else "reject")),
        rule=rule,
        table=table,
        template=given_options(template, rest),
    )


def _check_known(template: Template[Any], rest: Mapping[str, object]) -> None:
    known = option_names(template)
    for name in rest:
        if name not in known:
            listed = ", ".join([*PIPELINE_KEYS, *RULE_KEYS, *(one.upper() for one in known)])
            raise InvalidArgument(
                f"unknown option {name.upper()}; a table of template {template.name!r} takes {listed}, and those of a table"
            )


def changed_rule(rule: IngestRule, given: Mapping[str, object]) -> IngestRule:
    """Returns the rule after a change; keys in any case.

    Raises:
        InvalidArgument: no key at all, an unknown one, or a bad value.
    """
    if not given:
        raise InvalidArgument(f"name what to change: {', '.join(RULE_KEYS)}")
    fields: dict[str, object] = {}
    for key, value in given.items():
        name = key.strip().upper()
        if name not in _RULE_READERS:
            raise InvalidArgument(f"unknown option {name} of a rule; it is one of {', '.join(RULE_KEYS)}")
        if name.lower() in fields:
            raise InvalidArgument(f"option {name} is given twice")
        fields[name.lower()] = _RULE_READERS[name](value)
    after = replace(rule, **fields)  # type: ignore[arg-type]  # each reader returns its field's type
    if not after.globs:
        raise InvalidArgument("a rule has at least one glob, as in '**/*.csv'; ENABLED = false stops it")
    if after.max_size is not None and after.max_size < after.min_size:
        raise InvalidArgument(f"MAX_SIZE {after.max_size} is below MIN_SIZE {after.min_size}: no object could match")
    return after


def as_list(option: str, value: object) -> tuple[str, ...]:
    """A list of texts: itself, the text of a JSON list, or texts between commas.

    Raises:
        InvalidArgument: it is none of them, or too long.
    """
    found: object = value
    if isinstance(value, str):
        found = list_of(value)
        if found is None:  # a glob may begin with a bracket, too
            found = [one.strip() for one in value.split(",")]
    if not isinstance(found, (list, tuple)) or not all(isinstance(one, str) for one in found):
        raise InvalidArgument(f"{option} {value!r:.80} must be a list of texts, as in ('a', 'b')")
    if len(found) > _MOST:
        raise InvalidArgument(f"{option} has {len(found)} entries; {_MOST} are allowed")
    return tuple(dict.fromkeys(one for one in cast("list[str]", found) if one))


def _columns(option: str, value: object) -> tuple[str, ...]:
    return tuple(check_column(name) for name in as_list(option, value))


def _missing_columns(value: object) -> MissingColumns:
    text = str(value).strip().lower()
    if text not in ("reject", "null"):
        raise InvalidArgument(f"MISSING_COLUMNS {value!r} must be reject or null")
    return cast("MissingColumns", text)


def _globs(option: str) -> Callable[[object], tuple[str, ...]]:
    return lambda value: tuple(check_glob(glob) for glob in as_list(option, value))


def _bytes(option: str) -> Callable[[object], int]:
    return lambda value: parse_bytes(option, str(value).strip())


def _max_size(value: object) -> int | None:
    none = value is None or str(value).strip().upper() in ("", "NULL", "DEFAULT")
    return None if none else parse_bytes("MAX_SIZE", str(value).strip())


def _enabled(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise InvalidArgument(f"ENABLED {value!r} must be true or false")
    return text == "true"


_RULE_READERS: Mapping[str, Callable[[object], object]] = {
    "GLOBS": _globs("GLOBS"),
    "EXCLUDES": _globs("EXCLUDES"),
    "MIME_TYPES": lambda value: tuple(check_mime_type(kind) for kind in as_list("MIME_TYPES", value)),
    "MIN_SIZE": _bytes("MIN_SIZE"),
    "MAX_SIZE": _max_size,
    "ENABLED": _enabled,
}
