"""The results of statements.

And how statements are carried out, by K3's names and numbers: the strategy of a write or a query, the tiers, the freshness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

from lakewarden.base.any_year import INFINITE_MOMENT, day_text, moment_text

if TYPE_CHECKING:
    from lakewarden.tables.changes.log_reader import Event


Rules = Literal["native", "k3"]
"""Whose rules a session follows: those of Lakewarden's SQL, or those of K3's calls (k3.md)."""


class WireEnum(IntEnum):
    """An enum that goes over the wire by its full name: the class's name in capitals, then the member's."""

    @classmethod
    def _prefix(cls) -> str:
        return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in cls.__name__)[1:]

    @property
    def wire(self) -> str:
        """`WriteStrategy.KEYED_UPDATE` → `WRITE_STRATEGY_KEYED_UPDATE`."""
        return f"{self._prefix()}_{self.name}"

    @classmethod
    def wires(cls) -> dict[str, Self]:
        """Every member, by its full name."""
        return {each.wire: each for each in cls}


class WriteStrategy(WireEnum):
    """How rows are written: `KEYED_…` and `MERGE_…` through the write log, `NON_KEYED_…` straight into Delta."""

    UNSPECIFIED = 0
    """Of no write: a successful one has another."""
    KEYED_INSERT_SINGLE = 1
    KEYED_INSERT_BULK = 2
    KEYED_INSERT_FROM_SELECT = 3
    KEYED_UPDATE = 4
    KEYED_RANGE = 5
    KEYED_FROM_SUBQUERY = 6
    KEYED_DELETE = 7
    KEYED_RANGE_DELETE = 8
    KEYED_DELETE_FROM_SUBQUERY = 9
    NON_KEYED_UPDATE = 10
    NON_KEYED_DELETE = 11
    MERGE_ROWS = 12
    MERGE_QUERY = 13
    MERGE_TABLE = 14
    NON_KEYED_INSERT = 15
    NON_KEYED_INSERT_FROM_SELECT = 16


class QueryStrategy(WireEnum):
    """How a query is carried out: as one, or fanned out over partitions."""

    UNSPECIFIED = 0
    UNARY_WAREHOUSE = 1
    UNARY_MERGED_STRONG = 2
    FEDERATED_AGGREGATE = 3
    FEDERATED_SCAN = 4
    FEDERATED_TO_SINGLE = 5
    """A query that was to be fanned out, and is not worth it or does not decompose."""


class ServedBy(WireEnum):
    """The tiers that answered a query."""

    UNSPECIFIED = 0
    WAREHOUSE = 1
    """Delta alone."""
    MERGED = 2
    """The write log over Delta."""
    OLTP = 3
    """The write log alone."""


class Freshness(WireEnum):
    """The rows that a query sees."""

    UNSPECIFIED = 0
    """As EVENTUAL."""
    EVENTUAL = 1
    """Those in Delta."""
    STRONG = 2
    """Every acknowledged one."""
    OLTP_ONLY = 3
    """Those that are in the write log and not in Delta yet."""


_WHOLE = ("HUGEINT", "UHUGEINT", "BIGNUM")
"""DuckDB's whole numbers of 128 bits and more, which Arrow carries as DECIMAL or text."""

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Of a timestamp's unit, how many are a second."""


@dataclass(frozen=True)
class ResultRows:
    """A query's rows. `types` are DuckDB's type names, which distinguish 128-bit whole numbers from DECIMALs."""

    table: pa.Table
    types: tuple[str, ...]
    one_users: tuple[str, ...] = ()
    """The tables that it read of which it shows the rows of the session's user alone."""
    strategy: QueryStrategy | None = None
    """Known of a query on one large table, as the next two."""
    served_by: ServedBy | None = None
    strategy_reason: str | None = None
    """Why the strategy is not the one that the table suggests."""

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def first(self, limit: int) -> ResultRows:
        """At most so many of them."""
        return replace(self, table=self.table.slice(0, limit))

    def parts(self, rows: int) -> Iterator[ResultRows]:
        """All of them, so many at a time."""
        return (replace(self, table=self.table.slice(at, rows)) for at in range(0, self.table.num_rows, rows))

    def to_pylist(self) -> list[dict[str, object]]:
        """Every row as Python values by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.values(), strict=True)]

    def values(self) -> list[list[object]]:
        """Python values, a list a column. A time outside Python's calendar is text; HUGEINT and BIGNUM are int."""
        return [_values(column, kind) for column, kind in zip(self.table.columns, self.types, strict=True)]


def names_apart(names: Sequence[str]) -> list[str]:
    """`id, id` → `id, id_1`: a row's values are keyed by column name."""
    if len(set(names)) == len(names):
        return list(names)
    taken, made = set(names), dict[str, None]()
    numbers: dict[str, Iterator[int]] = defaultdict(partial(count, 1))
    for name in names:
        free = (f"{name}_{number}" for number in numbers[name])
        made[name if name not in made else next(one for one in free if one not in taken and one not in made)] = None
    return list(made)


@dataclass(frozen=True)
class AffectedRows:
    """How many rows a statement changed, and how. Only the number counts where two are compared."""

    rows: int
    strategy: WriteStrategy = field(default=WriteStrategy.UNSPECIFIED, compare=False)
    pending_drain: bool = field(default=False, compare=False)
    """Whether the rows are in the write log, and reach Delta with the next flush."""
    version: int | None = field(default=None, compare=False)
    """The version of the Delta table that the statement committed; None where it committed none."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    strategy_reason: str = field(default="", compare=False)
    """Why it was written so."""
    found: int | None = field(default=None, compare=False)
    """How many rows it was about, those included that had its values already; None where all were changed."""
    returned: ResultRows | None = field(default=None, compare=False)
    """What RETURNING made of these."""

    def first(self, limit: int) -> AffectedRows:
        """With at most so many of the returned ones."""
        return self if self.returned is None else replace(self, returned=self.returned.first(limit))


@dataclass(frozen=True)
class StatementDone:
    """A statement that changed something other than rows, or found nothing to do."""

    message: str


@dataclass(frozen=True)
class StartedJobs:
    """Jobs that a statement requested. `several` if the statement could request more than one, however many it did."""

    message: str
    job_ids: tuple[str, ...]
    several: bool = False


@dataclass(frozen=True)
class Events:
    """The events that a subscription has at the moment."""

    events: tuple[Event, ...]


Columns = Mapping[str, pa.DataType]
Row = dict[str, object]

OneLine = ResultRows | AffectedRows | StatementDone | StartedJobs

Result = OneLine | Events


def listing(columns: Columns, rows: list[Row]) -> ResultRows:
    """Builds a result of rows that do not come from a query."""
    table = pa.Table.from_pylist(rows, pa.schema(list(columns.items())))
    return ResultRows(table, tuple("" for _ in columns))


def _values(column: pa.ChunkedArray[Any], kind: str) -> list[object]:
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):
        values = [any_time(scalar) for chunk in column.chunks for scalar in chunk]
    if kind in _WHOLE:
        return [None if value is None else int(value) for value in values]
    return list(values)


def any_time(scalar: Any) -> object:
    """The value of an Arrow scalar as Python has it, where each time that it has no value for is text."""
    kind = scalar.type
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if pa.types.is_date(kind):
            return day_text(scalar.value)
        if pa.types.is_timestamp(kind):
            return _far_moment(scalar.value, kind.unit)
        if pa.types.is_struct(kind):
            return {name: any_time(one) for name, one in scalar.items()}
        if pa.types.is_map(kind):
            return [(any_time(pair["key"]), any_time(pair["value"])) for pair in scalar.values]
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return [any_time(one) for one in scalar.values]
        raise


def _far_moment(value: int, unit: str) -> str:
    """In UTC, as ISO 8601 has it."""
    if abs(value) == INFINITE_MOMENT:
        return moment_text(value)
    return moment_text(value * 1_000_000 // _UNITS[unit]) + "+00:00"
