"""FL.C: buckets and parallelism."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.catalog.dynamic_options import DynamicOptions
from lakewarden.catalog.evolution import SetOptions
from lakewarden.errors import InvalidArgument
from lakewarden.sql.results import Result

Sql = Callable[[str], list[Result]]


def test_fl_037_buckets_of_the_session(lake: Lakehouse, sql: Sql) -> None:
    sql("SET table-storage.bucket = 10; CREATE DYNAMIC TABLE b37 (a INT)")
    found = lake.warehouse.catalog.read().tables[TableName("n", "b37")].dynamic
    assert found == DynamicOptions(bucket=10)


def test_fl_038_the_number_of_buckets_never_changes(lake: Lakehouse, sql: Sql) -> None:
    sql("CREATE DYNAMIC TABLE b38 (a INT PRIMARY KEY) WITH ('bucket' = '2')")
    with pytest.raises(InvalidArgument, match="Bucket number has been changed"):
        sql("ALTER TABLE b38 SET TBLPROPERTIES ('bucket' = '4')")
    with pytest.raises(InvalidArgument, match="frozen"):
        lake.alter_table("n.b38", SetOptions({"log.retention": "1 d"}))
    sql("ALTER TABLE b38 SET TBLPROPERTIES (FLUSH_POLICY = 'rows:10')")
