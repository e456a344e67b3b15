"""Tables and views as PostgreSQL's catalog tells them."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.catalog.model import Table
from lakewarden.serve.postgres.kinds import Kind, kind_of_column


@dataclass(frozen=True)
class CatalogField:
    """A column of a table or a view."""

    name: str
    kind: Kind
    nullable: bool = True
    default: str | None = None


@dataclass(frozen=True)
class Thing:
    """A table or a view."""

    namespace: str
    name: str
    fields: tuple[CatalogField, ...]
    key: tuple[str, ...] = ()
    is_view: bool = False

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def key_name(self) -> str:
        return f"{self.name}_pkey"

    @property
    def key_places(self) -> list[int]:
        """The numbers of the key's columns, from 1."""
        names = [field.name for field in self.fields]
        return [names.index(name) + 1 for name in self.key]


def thing_of(table: Table) -> Thing:
    schema = table.schema
    keyed = () if schema.append_only else schema.primary_key
    fields = (
        CatalogField(column.name, kind_of_column(column.type), column.nullable and column.name not in keyed, column.default)
        for column in schema.shown
    )
    return Thing(table.name.namespace, table.name.name, tuple(fields), keyed)
