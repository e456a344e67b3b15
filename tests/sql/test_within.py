"""What a statement past the log reads of a partitioned table: the partitions that its condition leaves, whatever its form."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import Corrupt
from lakewarden.sql.results import AffectedRows
from tests.fixtures.bucket import path_of

_TABLES = """
CREATE NAMESPACE app;
CREATE SHARED TABLE app.s (id INT, day INT, kind TEXT) PARTITION BY (day, kind);
INSERT INTO app.s VALUES (1, 1, 'a'), (2, 2, 'a'), (3, 3, 'Ab'), (4, NULL, 'b');
"""


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """A table of four partitions; the file of day 2 is gone, so whoever reads it fails."""
    with Lakehouse.open(warehouse_uri) as opened:
        opened.sql(_TABLES)
        (file,) = (path_of(warehouse_uri) / "data" / "app" / "s" / "day=2" / "kind=a").iterdir()
        file.unlink()
        yield opened


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("(day = 1 OR day IS NULL) AND id > 0", 2),
        ("s.day <> 2 AND id IN (SELECT 3)", 1),
        ("lower(kind) LIKE '%b'", 2),
        ("NOT (app.s.day > 1) AND day <> 2", 1),
        ("CAST(kind AS INT) = 1 AND day = 1 AND id = 7", 0),
    ],
)
def test_other_partitions_are_not_read(lake: Lakehouse, condition: str, rows: int) -> None:
    (did,) = lake.sql(f"DELETE FROM app.s WHERE {condition}")
    assert isinstance(did, AffectedRows)
    assert did.rows == rows


@pytest.mark.parametrize(
    "condition", ["day > 1", "id = 2", "day = 1 OR id = 2", "day = 2 + floor(random() * 1000)", "day + id > 3"]
)
def test_partitions_that_may_have_a_row_are_read(lake: Lakehouse, condition: str) -> None:
    with pytest.raises(Corrupt):
        lake.sql(f"UPDATE app.s SET id = 9 WHERE {condition}")
