"""Conditions on partition columns: which partitions an optimize or compact works on. DuckDB decides, as it does in a query."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pyarrow as pa

from lakewarden.catalog.model import TableSchema
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.partitions import Partition, filled
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import InvalidArgument

PREDICATE = "predicate"
"""The parameter of a commit that names its condition."""

STEADY = frozenset(
    word
    for line in (
        "And Or Not Paren Column Identifier Literal Boolean Null EQ NEQ GT GTE LT LTE In Between Is Like ILike Cast TryCast",
        "DataType DataTypeParam Neg Add Sub Mul Div Interval Var Lower Upper Year Month Day",
    )
    for word in line.split()
)
"""What compares values the same way at any time, by sqlglot's names."""

_KINDS = STEADY | {"Alias", "CurrentDate", "CurrentTimestamp"}
"""What a condition may consist of: nothing that reads or calls something else."""


def check_predicate(schema: TableSchema, where: str) -> None:
    """Raises:
    InvalidArgument: the text is not a condition, names a column that is not a partition column, or does more than compare.
    """
    from sqlglot import exp  # takes a third of a second, which other operations do not need

    for node in _parsed(where).walk():
        if isinstance(node, exp.Column) and node.name.lower() not in {name.lower() for name in schema.partition_by}:
            takes = ", ".join(schema.partition_by) or "it has none"
            raise InvalidArgument(f"WHERE {where}: {node.name} is not a partition column; these can be compared: {takes}")
        if type(node).__name__ not in _KINDS:
            raise InvalidArgument(
                f"WHERE {where}: {node.sql('duckdb')} cannot be used here; compare partition columns with values"
            )


def condition_of(partitions: Iterable[Partition]) -> str:
    """The condition on partition columns that holds for these partitions alone; empty where there are none."""
    from sqlglot import exp  # as above

    def equals(name: str, text: str | None) -> exp.Expr:
        column = exp.column(exp.to_identifier(name, quoted=True))
        return column.is_(exp.null()) if text is None else column.eq(exp.Literal.string(text))

    either = [exp.and_(*(equals(*pair) for pair in partition), copy=False) for partition in partitions]
    return exp.or_(*either, copy=False).sql("duckdb") if either else ""


def partitions_within(schema: TableSchema, where: str, partitions: Iterable[Partition]) -> Collection[Partition]:
    """The partitions for which the condition is true.

    Raises:
        InvalidArgument: as `check_predicate`; or it compares values that cannot be compared.
    """
    import duckdb

    check_predicate(schema, where)
    every = list(partitions)
    table = as_rows(schema, every).append_column("place", pa.array(range(len(every)), pa.int64()))
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("partitions", table)
        try:
            query = f"SELECT place FROM partitions WHERE {_parsed(where).sql('duckdb')}"  # noqa: S608  # checked above
            found = connection.execute(query).fetchall()
        except duckdb.Error as error:
            raise InvalidArgument(f"WHERE {where}: {str(error).splitlines()[0]}") from error
    return {every[place] for (place,) in found}


def files_where(table: ScopeTable, schema: TableSchema, where: str) -> tuple[DataFile, ...]:
    """The table's files in these partitions; all where there is no condition. Raises as `partitions_within`."""
    if not where:
        return table.files()
    wanted = partitions_within(schema, where, {file.partition for file in table.files()})
    return tuple(file for file in table.files() if file.partition in wanted)


def as_rows(schema: TableSchema, partitions: Collection[Partition]) -> pa.Table:
    """A row for each partition, with the values of the partition columns."""
    kinds: dict[str, Any] = {column.name: column.type.arrow for column in schema.columns}
    return pa.table(
        {
            name: pa.chunked_array([filled(dict(each)[name], 1, kinds[name]) for each in partitions], kinds[name])
            for name in schema.partition_by
        }
    )


def _parsed(where: str) -> Any:
    """sqlglot's tree.

    Raises:
        InvalidArgument: the text is not one expression.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        return sqlglot.parse_one(where, read="duckdb")
    except SqlglotError as error:
        raise InvalidArgument(f"WHERE {where}: this is not a condition, as in day >= '2024-05-01'") from error
