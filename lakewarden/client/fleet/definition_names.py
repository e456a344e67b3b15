"""Names of Dagster's definitions of a warehouse, which links to them have to know without Dagster."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.base.scope import TableName

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
