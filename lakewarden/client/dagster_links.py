"""Links to the forms of Dagster's launchpad, filled in, made without Dagster: so its definitions' names are made here, too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from lakewarden.base.scope import TableName
from lakewarden.maintenance.planning.health import Trouble

VERBS = frozenset({"restore", "optimize", "compact", "check", "upload", "materialize", "ingest", "expect"})
"""The first words of the names that name a table."""


def definition_name(prefix: Sequence[str], name: str) -> str:
    """The name of a definition or resource that the warehouse has once, behind the prefix of its keys."""
    return _named(prefix, name, name)


def table_definition_name(prefix: Sequence[str], verb: str, table: TableName) -> str:
    """The name of a definition that each table has, such as `restore_chat__messages`; `verb` is one of `VERBS`."""
    namespace = spelled(table.namespace)
    plain = "__" not in f"{namespace}_" and "__" not in table.name
    return _named(prefix, f"{verb}_{namespace}__{table.name}", verb, namespace, table.name, is_plain=plain)


def spelled(namespace: str) -> str:
    """As Dagster's names of jobs, steps and groups, which hold no `-`. No two namespaces differ only in that
    (`catalog.changes.objects.add_namespace`)."""
    return namespace.replace("-", "_")


def _named(prefix: Sequence[str], name: str, *parts: str, is_plain: bool = True) -> str:
    """No two mounts and tables have the same: where the parts cannot be told apart by their signs, their lengths follow.

    They can, where no `__` but those made here is in it, and no word of the prefix is a verb: `[a, b]` is `a_b`, and
    `[a_b]` is `a__b`.
    """
    if is_plain and all(map(_is_plain_prefix, prefix)):
        return "_".join([*(part.replace("_", "__") for part in prefix), name])
    lengths = (str(len(part)) for part in (*prefix, *parts))
    return "___".join(["_".join([*prefix, name]), "_".join(lengths)])


def _is_plain_prefix(part: str) -> bool:
    return "__" not in f"_{part}_" and VERBS.isdisjoint(part.split("_"))


# The forms, and which of them helps with which trouble.

PARTITION = "dagster/partition"
"""The tag by which a run has a partition."""

RESTORE = "restore_table"
"""The op of every table's own restore job."""

_PLAIN = re.compile("[A-Za-z0-9_.@-]*")
"""Ids that are in a link as an erasure searches for them; others get no links."""

_BARE = re.compile("[A-Za-z_][A-Za-z0-9_./@-]*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


@dataclass(frozen=True)
class FilledForm:
    """A form of a job, filled. `path` is relative to Dagster's web server."""

    verb: str
    path: str


def form_path(job: str, op: str, config: Mapping[str, object], partition: str | None = None) -> str:
    """The path of a job's form with the config of its op, and with a partition selected."""
    text = _yaml({"ops": {op: {"config": dict(config)}}})
    tags = {} if partition is None else {"tags[0][key]": PARTITION, "tags[0][value]": partition}
    return f"/guess/{job}/playground/setup?{urlencode({'config': text, **tags}, safe=':/,')}"


def plan_path(job: str, op: str, config: Mapping[str, object]) -> str:
    """The same for a form that a plan fills, on one line: a run's page shows the whole URL."""
    text = ", ".join(f"{name}: {_scalar(value)}" for name, value in config.items())
    query = urlencode({"config": f"ops: {{{op}: {{config: {{{text}}}}}}}"}, safe=":{},")
    return f"/guess/{job}/playground/setup?{query}"


def forms_for(trouble: Trouble, prefix: Sequence[str] = ()) -> Iterator[FilledForm]:
    """Those that help, filled in for the examples, or the first of them; of ids that are in no link only what names no user."""
    first = trouble.examples[0]
    table, user = str(first.table), first.user
    plain = all(_PLAIN.fullmatch(scope.user or "") for scope in trouble.examples)
    match trouble.severity:
        case "away":
            yield FilledForm("check", form_path(definition_name(prefix, "check_all_job"), "check_all", {"quick": True}))
        case "broken" if plain:
            config = {"table": table} if user is None else {"table": table, "user": user}
            yield FilledForm("repair", form_path(definition_name(prefix, "repair_job"), "repair", config))
        case "failed check" if plain:
            job = table_definition_name(prefix, "restore", first.table)
            yield FilledForm("restore", form_path(job, RESTORE, {"to": ""}, user))
        case "late" | "waiting" if plain:
            users = [scope.user for scope in trouble.examples if scope.user is not None]
            yield FilledForm("flush", form_path(definition_name(prefix, "flush_job"), "flush", {"scopes": {table: users}}))
        case "many files":
            for operation in ("compact", "optimize"):
                if operation in trouble.reason:
                    job = definition_name(prefix, f"{operation}_job")
                    yield FilledForm(operation, form_path(job, operation, {"tables": [table]}))


def _yaml(value: Mapping[str, object], indent: int = 0) -> str:
    """A mapping of mappings, lists and texts as YAML in blocks, as people edit it."""
    return "\n".join(line for name, one in value.items() for line in _lines(name, one, indent))


def _lines(name: str, value: object, indent: int) -> Iterator[str]:
    begin = f"{' ' * indent}{_scalar(name)}:"
    if isinstance(value, Mapping) and value:
        yield begin
        yield _yaml(value, indent + 2)
    elif isinstance(value, (list, tuple)) and value:
        yield begin
        yield from (f"{' ' * indent}- {_scalar(one)}" for one in value)
    else:
        yield f"{begin} {_scalar(value)}"


def _scalar(value: object) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    if isinstance(value, str) and value.isprintable():
        doubled = value.replace("'", "''")
        return f"'{doubled}'"  # as YAML's own writers quote, and as events are packed for (`event_log.packed_storage`)
    return json.dumps(value, ensure_ascii=False)
