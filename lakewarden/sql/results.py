"""What a statement answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Rows:
    """A query's rows. `types` are DuckDB's names of the columns' types, which tell whole numbers of 128 bits from DECIMALs."""

    table: pa.Table
    types: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def to_pylist(self) -> list[dict[str, object]]:
        """Python values by column; of columns with one name, the last."""
        return self.table.to_pylist()


@dataclass(frozen=True)
class Affected:
    """How many rows INSERT, UPDATE or DELETE changed."""

    rows: int


@dataclass(frozen=True)
class Done:
    """A statement that changed something other than rows, or found nothing to do."""

    message: str


@dataclass(frozen=True)
class Started:
    """Jobs that a statement asked for. `several` where it might have been more than one, whatever came of it."""

    message: str
    job_ids: tuple[str, ...]
    several: bool = False


Columns = Mapping[str, pa.DataType]

Result = Rows | Affected | Done | Started


def listing(columns: Columns, rows: list[dict[str, object]]) -> Rows:
    """Rows that no query made."""
    table = pa.Table.from_pylist(rows, pa.schema(list(columns.items())))
    return Rows(table, tuple("" for _ in columns))
