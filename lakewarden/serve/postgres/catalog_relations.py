"""The rows of the relations, from what the session may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

import pyarrow as pa

from lakewarden.catalog.model import Table
from lakewarden.serve.postgres.catalog_shapes import SHAPES, Row, made
from lakewarden.serve.postgres.kinds import KINDS, Kind, kind_of_column
from lakewarden.serve.postgres.variables import Variables
from lakewarden.sql.system_listings import VisibleObjects

OWNER = 10
"""The role that owns all: PostgreSQL's first one."""
CATALOG, INFORMATION = 11, 13_000
"""The schemas of the system."""
CLASSES = {
    "pg_type": 1247,
    "pg_attribute": 1249,
    "pg_proc": 1255,
    "pg_class": 1259,
    "pg_constraint": 2606,
    "pg_namespace": 2615,
    "pg_extension": 3079,
}
"""The relations that others refer to by number."""
HEAP, BTREE = 2, 403
_ACCESS_METHODS = ((HEAP, "heap", "t"), (BTREE, "btree", "i"))
TABLESPACE = 1663
"""The one of all databases: PostgreSQL's default."""
_FIRST, _MOST = 16_384, (1 << 31) - 1


def numbered(names: Iterable[str]) -> dict[str, int]:
    """A number for each name, by what it is called; of two that would have the same, the later in order has the next one."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(names):
        number = _FIRST + crc32(name.encode()) % (_MOST - _FIRST)
        while number in taken:
            number += 1
        taken.add(number)
        found[name] = number
    return found


# Tables and views as PostgreSQL's catalog tells them.
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


OWNER_NAME = "lakewarden"


@dataclass(frozen=True)
class VisibleCatalog:
    """What a session sees; `views` describes its views, which takes a query each."""

    seen: VisibleObjects
    variables: Variables
    views: Callable[[], tuple[Thing, ...]]

    @cached_property
    def things(self) -> list[Thing]:
        return [*map(thing_of, self.seen.tables), *self.views()]

    @cached_property
    def oids(self) -> dict[str, int]:
        """By `namespace` + `/` for a schema, `namespace.name` for a table, `…#` for its key's index."""
        names = [f"{name}/" for name in self.seen.namespaces]
        names += [thing.full for thing in self.things]
        return numbered([*names, *(f"{thing.full}#" for thing in self.things if thing.key)])

    @property
    def database(self) -> str:
        return self.seen.namespace or "postgres"

    @property
    def keyed(self) -> list[Thing]:
        return [thing for thing in self.things if thing.key]

    def number(self, name: str) -> int | None:
        """The OID of a table, by name in the namespace in use, or by whole name."""
        return self.oids.get(name) or self.oids.get(f"{self.seen.namespace}.{name}")

    def relation(self, name: str) -> pa.Table:
        rows = _ROWS.get(name)
        return made(name, () if rows is None else rows(self))


def _classes(of: VisibleCatalog) -> Iterator[Row]:
    shared: Row = {"relowner": OWNER, "relpersistence": "p", "relreplident": "d", "relispopulated": True, "reltuples": -1.0}
    for thing in of.things:
        kind = {"relkind": "v"} if thing.is_view else {"relkind": "r", "relam": HEAP, "relhasindex": bool(thing.key)}
        place = {"oid": of.oids[thing.full], "relname": thing.name, "relnamespace": of.oids[f"{thing.namespace}/"]}
        yield {**shared, **place, **kind, "relnatts": len(thing.fields)}
    for thing in of.keyed:
        place = {"oid": of.oids[f"{thing.full}#"], "relname": thing.key_name, "relnamespace": of.oids[f"{thing.namespace}/"]}
        yield {**shared, **place, "relkind": "i", "relam": BTREE, "relnatts": len(thing.key)}
    for name, oid in CLASSES.items():
        yield {**shared, "oid": oid, "relname": name, "relnamespace": CATALOG, "relkind": "r", "relam": HEAP}


def _namespaces(of: VisibleCatalog) -> Iterator[Row]:
    yield {"oid": CATALOG, "nspname": "pg_catalog", "nspowner": OWNER}
    yield {"oid": INFORMATION, "nspname": "information_schema", "nspowner": OWNER}
    for name in of.seen.namespaces:
        yield {"oid": of.oids[f"{name}/"], "nspname": name, "nspowner": OWNER}


def _attributes(of: VisibleCatalog) -> Iterator[Row]:
    for thing in of.things:
        for number, field in enumerate(thing.fields, 1):
            yield {
                **_attribute(of.oids[thing.full], number, field.name, field.kind),
                "attnotnull": not field.nullable,
                "atthasdef": field.default is not None,
                "attstattarget": -1,
                "attstorage": "p",
                "attalign": "i",
            }
    for thing in of.keyed:
        for number, (name, place) in enumerate(zip(thing.key, thing.key_places, strict=True), 1):
            yield _attribute(of.oids[f"{thing.full}#"], number, name, thing.fields[place - 1].kind)


def _attribute(relation: int, number: int, name: str, kind: Kind) -> Row:
    """Of a column of a table, or of its key's index."""
    shared: Row = {"attislocal": True, "attidentity": "", "attgenerated": ""}
    place = {"attrelid": relation, "attname": name, "attnum": number}
    return {**shared, **place, "atttypid": kind.oid, "attlen": kind.size, "atttypmod": kind.modifier}


def _defaults(of: VisibleCatalog) -> Iterator[Row]:
    for thing in of.things:
        for number, field in enumerate(thing.fields, 1):
            if field.default is not None:
                yield {"oid": of.oids[thing.full], "adrelid": of.oids[thing.full], "adnum": number, "adbin": field.default}


def _indexes(of: VisibleCatalog) -> Iterator[Row]:
    for thing in of.keyed:
        places = thing.key_places
        yield {
            "indexrelid": of.oids[f"{thing.full}#"],
            "indrelid": of.oids[thing.full],
            "indnatts": len(places),
            "indnkeyatts": len(places),
            "indkey": places,
            "indoption": [0] * len(places),
            "indclass": [0] * len(places),
            **dict.fromkeys(("indisunique", "indisprimary", "indimmediate", "indisvalid", "indisready", "indislive"), True),
            "expanded": [{"x": place, "n": number} for number, place in enumerate(places, 1)],
        }


def _constraints(of: VisibleCatalog) -> Iterator[Row]:
    for thing in of.keyed:
        index = of.oids[f"{thing.full}#"]
        yield {
            "oid": index,
            "conname": thing.key_name,
            "connamespace": of.oids[f"{thing.namespace}/"],
            "contype": "p",
            "conrelid": of.oids[thing.full],
            "conindid": index,
            "conkey": thing.key_places,
            "convalidated": True,
            "conislocal": True,
            "definition": f"PRIMARY KEY ({_listed(thing)})",
        }


def _index_columns(of: VisibleCatalog) -> Iterator[Row]:
    """The first of each index is its whole definition."""
    for thing in of.keyed:
        whole = f"CREATE UNIQUE INDEX {thing.key_name} ON {thing.full} USING btree ({_listed(thing)})"
        for number, name in enumerate((whole, *thing.key)):
            yield {"oid": of.oids[f"{thing.full}#"], "n": number, "name": name}


def _listed(thing: Thing) -> str:
    return ", ".join(thing.key)


def _types(_: VisibleCatalog) -> Iterator[Row]:
    shared: Row = {"typnamespace": CATALOG, "typowner": OWNER, "typisdefined": True, "typdelim": ",", "typtypmod": -1}
    for kind in KINDS.values():
        text = {"typname": kind.name, "typinput": f"{kind.name}in", "typtype": "b", "typcategory": kind.category}
        yield {**shared, **text, "oid": kind.oid, "typlen": kind.size, "typarray": kind.array}
        if kind.array:
            listed = {"typname": f"_{kind.name}", "typinput": "array_in", "typtype": "b", "typcategory": "A"}
            yield {**shared, **listed, "oid": kind.array, "typlen": -1, "typelem": kind.oid}


def _databases(of: VisibleCatalog) -> Iterator[Row]:
    for name in {*of.seen.namespaces, of.database}:
        number = of.oids.get(f"{name}/", 5)
        names = {"datname": name, "datcollate": "C", "datctype": "C", "datallowconn": True}
        yield {**names, "oid": number, "datdba": OWNER, "encoding": 6, "datconnlimit": -1, "dattablespace": TABLESPACE}


def _roles(of: VisibleCatalog) -> Iterator[Row]:
    for number, name in ((OWNER, OWNER_NAME), (OWNER + 1, of.seen.principal.user)):
        yield {"oid": number, "rolname": name, "rolinherit": True, "rolcanlogin": name != OWNER_NAME, "rolconnlimit": -1}


_ROWS: Mapping[str, Callable[[VisibleCatalog], Iterable[Row]]] = {
    "pg_class": _classes,
    "pg_namespace": _namespaces,
    "pg_attribute": _attributes,
    "pg_attrdef": _defaults,
    "pg_index": _indexes,
    "pg_constraint": _constraints,
    "pg_type": _types,
    "pg_database": _databases,
    "pg_tablespace": lambda _: [{"oid": TABLESPACE, "spcname": "pg_default", "spcowner": OWNER}],
    "pg_roles": _roles,
    "pg_user": lambda of: [{"usename": of.seen.principal.user, "usesysid": OWNER + 1}],
    "pg_am": lambda _: ({"oid": oid, "amname": name, "amtype": kind} for oid, name, kind in _ACCESS_METHODS),
    "pg_settings": lambda of: ({"name": name, "setting": value} for name, value in of.variables.shown()),
    "index_columns": _index_columns,
}
"""The others have no rows: there is nothing of their kind."""
assert _ROWS.keys() <= SHAPES.keys()
