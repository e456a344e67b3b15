"""The bucket of a row as a column of Spark: the hash of `catalog.buckets`, computed by the same code in Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewarden.catalog import buckets as hashed
from lakewarden.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import Column


def bucket_of(key: Sequence[str | Column], buckets: int) -> Column:
    """The bucket that a dynamic table of so many buckets puts a row into, an INT from 0.

    `frame.repartition(4, bucket_of(["id"], 4))` gives the rows of a bucket to one task.

    Args:
        key: the columns of the table's primary key, in its order; without one, all its columns.

    Raises:
        InvalidArgument: no column is named, or no bucket.
    """
    from pyspark.sql.pandas.functions import arrow_udf  # tasks of other jobs import this package too

    if not key or buckets < 1:
        raise InvalidArgument(f"a bucket is that of one column or more, of 1 bucket or more; not of {len(key)}, of {buckets}")

    def found(*columns: pa.Array[Any]) -> pa.Array[Any]:
        rows = pa.table({str(place): column for place, column in enumerate(columns)})
        return hashed.bucket_of(rows, rows.column_names, buckets)

    found.__annotations__ = dict.fromkeys(("columns", "return"), pa.Array)  # Spark tells the kind of a UDF by its hints
    placed: Callable[..., Column] = arrow_udf(found, "int")  # type: ignore[call-overload]  # its hints have one column only
    return placed(*key)
