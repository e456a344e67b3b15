"""Columns of K3's requests and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.catalog.model import Column, SchemaColumn
from lakewarden.client.k3.enums import KIND_OF_TYPE, TYPE_OF_KIND, ColumnKind
from lakewarden.client.k3.messages import ColumnAnswer
from lakewarden.client.k3.wire import member
from lakewarden.errors import InvalidArgument

_FIELDS = ("name", "type", "nullable", "default_expression")


def declared(columns: Sequence[Mapping[str, object]], merge_keys: Sequence[str]) -> list[Column]:
    """The columns of a table to create.

    Raises:
        InvalidArgument: there are none, one has no valid type, or a column cannot be a merge key.
    """
    if not columns:
        raise InvalidArgument("columns is empty: a manual table needs columns; with create_table_pipeline, its template has them")
    found = [_column(each) for each in columns]
    nullable = {column.name: column.nullable for column in found}
    for name in merge_keys:
        if name not in nullable:
            raise InvalidArgument(f"merge_keys names {name!r}, which is no column; the columns are {', '.join(nullable)}")
        if nullable[name]:
            raise InvalidArgument(f"merge_keys names {name!r}, which is nullable: a key column has nullable = false")
    return found


def _column(given: Mapping[str, object]) -> Column:
    unknown = [name for name in given if name not in _FIELDS]
    if unknown:
        raise InvalidArgument(f"a column has no field {unknown[0]!r}; its fields are {', '.join(_FIELDS)}")
    name, default = given.get("name"), given.get("default_expression") or ""
    if not isinstance(name, str) or not isinstance(default, str):
        raise InvalidArgument(f"a column's name and default_expression are text: {dict(given)!r}")
    kind = member(ColumnKind, f"type of column {name!r}", given.get("type", ColumnKind.UNSPECIFIED))
    if kind not in TYPE_OF_KIND:
        raise InvalidArgument(f"column {name!r} needs a type: one of {', '.join(each.wire for each in TYPE_OF_KIND)}")
    nullable = given.get("nullable", False)
    if not isinstance(nullable, bool):
        raise InvalidArgument(f"column {name!r}: nullable is true or false, not {nullable!r}")
    return Column(name, TYPE_OF_KIND[kind], nullable=nullable, default=default or None)


def shown(column: SchemaColumn) -> ColumnAnswer:
    return {
        "name": column.name,
        "type": KIND_OF_TYPE[column.type.name].wire,
        "nullable": column.nullable,
        "defaultExpression": column.default or "",
    }
