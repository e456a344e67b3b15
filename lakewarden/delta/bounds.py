"""Bounds on columns, by which whole files are passed over: a file whose statistics lie outside has no row that matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.delta.files import DataFile
    from lakewarden.delta.table import ScopeTable


@dataclass(frozen=True)
class Bound:
    """Rows below `low` or above `high` are not wanted, nor those where the column is null; None is no bound."""

    column: str
    low: int | str | None = None
    high: int | str | None = None


def files_within(table: ScopeTable, bounds: Sequence[Bound]) -> list[DataFile]:
    """The live files that may have a row within all bounds, in their order. Without statistics, a file may."""
    files = list(table.files())
    if not bounds or len(files) < 2:
        return files
    adds = table.adds
    paths = [str(path) for path in adds.column("path").to_pylist()]
    outside: set[str] = set()
    for bound in bounds:
        low, high = (_statistic(table, f"{end}.{bound.column}") for end in ("min", "max"))
        outside |= {path for path, least, most in zip(paths, low, high, strict=True) if _beyond(bound, least, most)}
    return [file for file in files if file.path not in outside]


def _statistic(table: ScopeTable, name: str) -> list[object]:
    adds = table.adds
    return list(adds.column(name).to_pylist()) if name in adds.column_names else [None] * adds.num_rows


def _beyond(bound: Bound, least: object, most: object) -> bool:
    return _less(most, bound.low) or _less(bound.high, least)


def _less(one: object, other: object) -> bool:
    """Only values of the same kind compare; text by its bytes in UTF-8, as Parquet and DuckDB do."""
    if isinstance(one, str) and isinstance(other, str):
        return one.encode() < other.encode()
    return isinstance(one, int) and isinstance(other, int) and one < other
