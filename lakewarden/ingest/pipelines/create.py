"""Creates pipelines: a table without a schema, the pipeline that will fill it, its rule, and the table of its rejects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from lakewarden.base.scope import TableName
from lakewarden.catalog.changes.pipelines import add_pipeline, change_rule, drop_pipeline, rule_named
from lakewarden.catalog.model import IngestRule, MissingColumns, Pipeline, Table
from lakewarden.catalog.names import check_column
from lakewarden.catalog.options import option_named, parse_bytes
from lakewarden.catalog.options import parse_options as table_options
from lakewarden.catalog.state.ledger import forget_ledger
from lakewarden.errors import InUse, InvalidArgument
from lakewarden.ingest.pipelines.rejects import rejects_name, rejects_table
from lakewarden.ingest.pipelines.rules import check_glob, check_mime_type
from lakewarden.ingest.pipelines.source import default_source
from lakewarden.ingest.templates.options import given_options, list_of, option_names, template_named
from lakewarden.ingest.templates.template import Template
from lakewarden.storage.location import canonical, join, overlaps
from lakewarden.storage.paths import STATE
from lakewarden.tables.warehouse import Warehouse

# The options of a pipeline, as `CREATE SHARED TABLE … FROM TEMPLATE … WITH (…)`, `ALTER RULE` and K3's calls give them.
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
        InvalidArgument: it is not one of them, or too long.
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


_ID_LENGTH = 16


def make_pipeline(
    warehouse: Warehouse, name: TableName, template: str, options: Mapping[str, object], description: str = ""
) -> Pipeline:
    """Args:
        options: as `ingest.pipelines.create` has them.

    Raises:
        NotFound: no such template, namespace or storage.
        InvalidArgument, AlreadyExists, InUse: nothing was created.
    """
    found = template_named(template)
    wanted = declared(found, options)
    rejects_name(name)
    now = warehouse.clock()
    blank = Table(
        id=warehouse.new_id(),
        name=name,
        type="SHARED",
        options=table_options("SHARED", wanted.table),
        schemas=(),
        log_id=warehouse.new_id(),
        created_at=now,
        description=description,
    )
    pipeline = Pipeline(
        id=f"pl_{warehouse.new_id()[:_ID_LENGTH]}",
        table=name,
        table_id=blank.id,
        template=found.name,
        source=_source(warehouse, name, wanted),
        created_at=now,
        options=json.dumps(wanted.template),
        primary_key=wanted.primary_key,
        partition_by=wanted.partition_by,
        missing_columns=wanted.missing_columns,
    )
    rule = _rule(warehouse, found, wanted, pipeline)
    warehouse.catalog.change(lambda catalog: add_pipeline(catalog, blank, pipeline, rule, warehouse.base))
    rejects_table(warehouse, name)
    return pipeline


def edit_rule(warehouse: Warehouse, rule_id: str, options: Mapping[str, object]) -> IngestRule:
    """Raises:
    NotFound: no such rule.
    InvalidArgument: an unknown option, or a bad value; nothing was changed.
    """
    now = warehouse.clock()
    after = warehouse.catalog.change(lambda catalog: change_rule(catalog, rule_id, lambda rule: changed_rule(rule, options), now))
    return rule_named(after, rule_id)


def remove_pipeline(warehouse: Warehouse, pipeline_id: str) -> None:
    """Removes a pipeline with its rule and ledger; its table stays, as a manual one.

    Raises:
        NotFound, FailedPrecondition: as `drop_pipeline`.
    """
    warehouse.catalog.change(lambda catalog: drop_pipeline(catalog, pipeline_id))
    forget_ledger(warehouse.state, pipeline_id)


def _rule(warehouse: Warehouse, template: Template[Any], wanted: Declaration, pipeline: Pipeline) -> IngestRule:
    made = IngestRule(
        id=f"rule_{warehouse.new_id()[:_ID_LENGTH]}",
        pipeline_id=pipeline.id,
        globs=tuple(f"**/*.{extension}" for extension in template.accepted_extensions),
        created_at=pipeline.created_at,
        updated_at=pipeline.created_at,
    )
    return changed_rule(made, wanted.rule) if wanted.rule else made


def _source(warehouse: Warehouse, name: TableName, wanted: Declaration) -> str:
    """Raises:
    InvalidArgument: it does not name a place.
    InUse: it is inside the data or the state of the warehouse, or around them: files of tables would be taken for uploads.
    """
    if wanted.source is None:
        return default_source(name)
    place = canonical(wanted.source)
    bases = [warehouse.base(storage) for storage in warehouse.catalog.read().storages.values()]
    for taken in (join(warehouse.uri, STATE), *bases):
        if overlaps(place, canonical(taken)):
            raise InUse(f"the source {place} overlaps {taken}, where tables or their state are: choose a place of its own")
    return place
