"""Tables that Spark wrote, feature by feature, are read as Spark reads them: rows, live files with their vectors, domains."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakewarden.base.connection import Location
from lakewarden.delta.reading.foreign import open_foreign
from lakewarden.delta.replay.columns import all_rows
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.delta.replay.paths import key_of, root_of
from lakewarden.errors import Unsupported
from tests.delta.reading.test_foreign import SHARED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WRITTEN = SHARED / "spark44"
_UNREAD = {"variant": "VARIANT"}
"""What is refused, and by which name."""


@pytest.mark.night
@pytest.mark.slow
@pytest.mark.skipif(not _WRITTEN.is_dir(), reason="the tables of upstream projects are not beside this checkout")
def test_each_table_is_as_spark_reads_it(spark: SparkSession) -> None:
    found = {log.parent.name: _difference(spark, str(log.parent)) for log in sorted(_WRITTEN.glob("**/_delta_log"))}
    assert {name: said for name, said in found.items() if said} == {}
    assert len(found) >= 28


def _difference(spark: SparkSession, path: str) -> str:
    ours = replay(Location(path))
    assert ours is not None
    delta: Any = spark._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]
    snapshot = delta.DeltaLog.forTable(spark._jsparkSession, path).unsafeVolatileSnapshot()
    if snapshot.version() != ours.version:
        return f"version {snapshot.version()}, and {ours.version}"
    if (theirs := _live(snapshot, ours)) != (mine := _keys(ours)):
        return f"live files: {theirs ^ mine}"
    if (domains := _domains(snapshot)) != ours.domains:
        return f"domains {domains}, and {ours.domains}"
    return _rows_differ(spark, path)


def _live(snapshot: Any, ours: LogState) -> set[tuple[str, str]]:
    root = root_of(ours.location)
    vectors = ((file.path(), file.deletionVector()) for file in snapshot.allFiles().collect())
    return {(key_of(path, root), "" if vector is None else vector.uniqueId()) for path, vector in vectors}


def _keys(ours: LogState) -> set[tuple[str, str]]:
    return {*zip(*(map(str, ours.files.column(name).to_pylist()) for name in ("key", "vectorId")), strict=True)}


def _domains(snapshot: Any) -> dict[str, str]:
    found = snapshot.domainMetadata()
    every = (found.apply(number) for number in range(found.size()))
    return {each.domain(): each.configuration() for each in every if not each.removed()}


def _rows_differ(spark: SparkSession, path: str) -> str:
    name = path.rpartition("/")[2]
    try:
        ours = all_rows(open_foreign(Location(path)))
    except Unsupported as error:
        return "" if _UNREAD.get(name, "?") in error.message else error.message
    if name in _UNREAD:
        return "it is read"
    theirs = spark.read.format("delta").load(path).toArrow()
    return "" if _bag(theirs.cast(ours.schema)) == _bag(ours) else "rows"


def _bag(rows: pa.Table) -> Counter[Any]:
    return Counter(zip(*(map(repr, column.to_pylist()) for column in rows.columns), strict=True))
