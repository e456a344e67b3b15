"""A view that would read itself is refused when it is made, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import InvalidArgument


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w")) as opened:
        opened.sql("CREATE NAMESPACE n; CREATE NAMESPACE o; CREATE SHARED TABLE n.t (id BIGINT PRIMARY KEY)")
        opened.sql("CREATE VIEW n.a AS SELECT * FROM t; CREATE VIEW o.b AS SELECT id FROM n.a; CREATE VIEW n.c AS FROM O.B")
        yield opened


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW n.new AS SELECT * FROM n.new",
        "CREATE VIEW n.new AS SELECT * FROM lakewarden.N.NEW",
        "USE n; CREATE VIEW new AS SELECT id FROM t WHERE id IN (SELECT id FROM new)",
        "USE o; CREATE VIEW n.new AS WITH x AS (SELECT * FROM new) SELECT * FROM x",
        "CREATE OR REPLACE VIEW n.a AS SELECT * FROM n.a",
        "CREATE OR REPLACE VIEW n.A AS SELECT * FROM n.t UNION ALL SELECT * FROM o.b",
        "CREATE OR REPLACE VIEW n.a AS SELECT count(*) AS n FROM n.t JOIN n.C USING (id)",
    ],
)
def test_refused(lake: Lakehouse, statement: str) -> None:
    before = lake.warehouse.catalog.read().views
    with pytest.raises(InvalidArgument, match=r"view n\.\w+ would read itself"):
        lake.session(user="root", role="system").sql(statement)
    assert lake.warehouse.catalog.read().views == before
    assert lake.session(user="root", role="system").sql("SELECT * FROM n.c")


def test_refused_in_python(lake: Lakehouse) -> None:
    with pytest.raises(InvalidArgument, match=r"itself through n\.c, o\.b"):
        lake.create_view("n.a", "SELECT * FROM c", or_replace=True)
    with pytest.raises(InvalidArgument, match="not a query"):
        lake.create_view("n.d", "DROP TABLE n.t")


def test_what_only_looks_like_it_is_made(lake: Lakehouse) -> None:
    lake.sql("CREATE VIEW n.seen AS WITH seen AS (SELECT 1 AS x) SELECT * FROM seen")
    lake.sql("CREATE VIEW o.a AS SELECT * FROM n.a; CREATE OR REPLACE VIEW o.a AS SELECT id FROM n.c")
    lake.sql("CREATE VIEW n.late AS FROM n.later")
    with pytest.raises(InvalidArgument, match=r"view n\.later would read itself through n\.late"):
        lake.sql("CREATE VIEW n.later AS FROM n.late")
    lake.sql("DROP VIEW n.late; DROP VIEW o.a; DROP VIEW n.seen")
