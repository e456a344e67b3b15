"""Bulk ingest: rows of Arrow into a table, all of them or none, by the rules of INSERT."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from lakewarden.catalog.changes.engines import require_active
from lakewarden.client import Lakehouse
from lakewarden.errors import InvalidArgument, Unsupported
from lakewarden.serve.flight.calls import FlightCall
from lakewarden.serve.flight.messages import CommandStatementIngest, TableDefinitionOptions
from lakewarden.tables.client import WriteMode

_CREATE, _FAIL, _REPLACE = 1, 1, 3
"""Of TableNotExistOption, and two of TableExistsOption."""


class BulkIngest(msgspec.Struct, frozen=True, tag=True):
    """What tells one bulk ingest from another, beside its rows."""

    namespace: str
    table: str


def ingested(lake: Lakehouse, call: FlightCall, command: CommandStatementIngest, rows: pa.Table) -> int:
    """How many rows were written.

    Raises:
        Unsupported: it would create, replace or want a new table: tables are created by SQL.
        LakewardenError: as INSERT. Nothing was written.
    """
    options = command.table_definition_options or TableDefinitionOptions()
    if options.if_not_exist == _CREATE or options.if_exists in (_FAIL, _REPLACE) or command.temporary:
        raise Unsupported("bulk ingest appends to a table that exists (mode 'append'): create one by CREATE TABLE")
    if command.catalog:
        raise InvalidArgument(f"there is no catalog {command.catalog!r}: a table's name is its namespace and its own")
    namespace = command.schema or call.namespace
    if not namespace:
        raise InvalidArgument(f"{command.table} has no namespace: give it as the schema")
    table = lake.sessions.served(call.principal).table(f"{namespace}.{command.table}")
    require_active(lake.warehouse.catalog.read(), table.client.table.name)
    mode: WriteMode = "upsert" if table.client.table.options.on_duplicate == "replace" else "insert"
    return table.write(rows, mode=mode).rows
