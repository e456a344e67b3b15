"""The contents of an export, and how they are read back and imported for a user of this warehouse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakewarden.base.connection import Location
from lakewarden.base.scope import TableName
from lakewarden.delta.lifecycle.copying import CopiedFile
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import Corrupt, InvalidArgument, NotFound
from lakewarden.storage.location import canonical
from lakewarden.storage.objects import Missing, ObjectStore, path_below
from lakewarden.storage.open import open_store
from lakewarden.tables.client.client import TableClient
from lakewarden.tables.rows.files import Files, RowsWithFiles, references

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class ExportedTable:
    """`path` relative to the export; `version` is the Delta version that was copied."""

    name: str
    path: str
    version: int
    rows: int


@dataclass(frozen=True)
class Export:
    """The manifest of an export."""

    exported_user: str
    exported_at: str
    uri: str
    tables: tuple[ExportedTable, ...]
    files: tuple[CopiedFile, ...]


def read_manifest(source: str) -> Export:
    """Raises:
    NotFound: there is no finished export at the place.
    Corrupt: its manifest cannot be read, or a file is not what the manifest says.
    """
    place = canonical(source)
    store = open_store(Location(place))
    try:
        data = store.get(MANIFEST)
    except Missing:
        raise NotFound(f"there is no finished export at {place}: it has no {MANIFEST}") from None
    try:
        said = json.loads(data)
        tables = tuple(_table(ExportedTable(**table)) for table in said["tables"])
        files = tuple(CopiedFile(path_below("", file["path"]), file["size"], file["sha256"]) for file in said["files"])
        found = Export(said["exported_user"], said["exported_at"], place, tables, files)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidArgument) as error:
        raise Corrupt(f"{place}/{MANIFEST} is not the manifest of an export: {data[:80]!r}") from error
    for file in found.files:
        _check(store, file)
    return found


def exported_rows(found: Export, table: ExportedTable) -> ScopeTable:
    """The table of an export, opened at the version that was copied.

    Raises:
        Corrupt: it is not a Delta table, or reads a file that the manifest does not name and whose checksum was not verified.
    """
    opened = ScopeTable.open(Location(found.uri).below(table.path), table.version)
    if opened is None:
        raise Corrupt(f"{found.uri}/{table.path} is not a Delta table")
    live = {f"{table.path}/{file.path}" for file in opened.files()}
    if strange := live.difference(file.path for file in found.files):
        raise Corrupt(f"{found.uri}/{table.path} reads {min(strange)}, which is not in the manifest")
    return opened


def exported_files(found: Export, table: ExportedTable, rows: pa.Table, columns: Sequence[str]) -> Files:
    """The files that rows of an export refer to, except those removed before the export."""
    store, there = open_store(Location(found.uri)), {file.path for file in found.files}
    paths = ((ref, f"{table.path}/{ref.path}") for ref in references(rows, columns))
    return [(ref, partial(store.get, path)) for ref, path in paths if path in there]


def chosen(found: Export, names: Sequence[str]) -> list[ExportedTable]:
    """Raises NotFound: a table is not in the export."""
    there = {table.name: table for table in found.tables}
    if missing := [name for name in names if name not in there]:
        raise NotFound(f"{found.uri} has no table {missing[0]}; it has {', '.join(there) or 'none'}")
    return [there[name] for name in names] if names else list(found.tables)


def _table(said: ExportedTable) -> ExportedTable:
    """Raises what `read_manifest` treats as a bad manifest: no path in it may lead out of the export."""
    if type(said.version) is not int or said.version < 0:
        raise ValueError(f"not a version: {said.version!r}")
    TableName.parse(said.name)
    path_below("", said.path)
    return said


def _check(store: ObjectStore, file: CopiedFile) -> None:
    try:
        data = store.get(file.path)
    except Missing:
        raise Corrupt(f"{store.uri}/{file.path}, which the manifest names, is missing") from None
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise Corrupt(f"{store.uri}/{file.path} does not match the manifest: its checksum differs")


def import_export(open_table: Callable[[str], TableClient], source: str, user: str, tables: Sequence[str]) -> dict[str, int]:
    """As `Lakehouse.import_user`; no names mean all of the export. The rows of all tables are checked before any is written."""
    found = read_manifest(source)
    wanted = [(open_table(table.name), table) for table in chosen(found, tables)]
    taken = [(table.name, client, _taken(found, table, client, user)) for client, table in wanted]
    return {name: client.write_taken(rows, user=user).rows for name, client, rows in taken}


def _taken(found: Export, table: ExportedTable, client: TableClient, user: str) -> RowsWithFiles:
    columns = client.table.schema.names
    there = exported_rows(found, table).scan()
    if missing := [name for name in columns if name not in there.schema.names]:
        raise InvalidArgument(f"the export's {table.name} has no column {missing[0]!r}, which the table here has: drop it first")
    rows = client.completed(there.select(columns), user=user, follows=False)
    return RowsWithFiles(rows, exported_files(found, table, rows, client.table.schema.of_files), follows=False)
