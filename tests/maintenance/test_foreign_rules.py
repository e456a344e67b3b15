"""CHECK constraints that another program put on a table of ours: no row is committed that does not keep them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from lakewarden.errors import ConstraintViolation, Unsupported
from lakewarden.maintenance.planning.health import health
from lakewarden.sql.results import ResultRows
from tests.delta.foreign_features import constraint, turn_on
from tests.ingest.fitting import fitted

pytestmark = pytest.mark.disk

_CREATE = "CREATE NAMESPACE app; CREATE USER TABLE app.u (id INT PRIMARY KEY, n INT); CREATE SHARED TABLE app.d (id INT, n INT)"


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    with Lakehouse.open(warehouse_uri) as opened:
        opened.sql(_CREATE)
        for user in ("ada", "bob"):
            opened.sql(f"EXECUTE AS USER '{user}' (INSERT INTO app.u VALUES (1, 1), (2, 2))")
        opened.sql("INSERT INTO app.d VALUES (1, 1), (2, 2)")
        opened.flush()
        yield opened


def _delta(lake: Lakehouse, place: str) -> DeltaTable:
    return DeltaTable(str(Path(lake.warehouse.uri) / "data" / "app" / place))


def _put(lake: Lakehouse, place: str, text: str = "n > 0") -> None:
    _delta(lake, place).alter.add_constraint({"positive": text})


def _cold(lake: Lakehouse, place: str) -> list[int]:
    return sorted(int(n or 0) for n in _delta(lake, place).to_pyarrow_table().column("n").to_pylist())


def _write(lake: Lakehouse, user: str, n: int | None) -> None:
    lake.table("app.u").write([{"id": 3, "n": n}], user=user)


def _seen(lake: Lakehouse) -> None:
    """This process looks at the tables."""
    for user in ("ada", "bob"):
        lake.table("app.u").read(user=user, freshness="eventual")


@pytest.mark.parametrize("n", [0, -5, None])
def test_a_row_is_refused_at_the_write_where_the_constraint_is_known(lake: Lakehouse, n: int | None) -> None:
    _put(lake, "u/ada")
    _seen(lake)
    with pytest.raises(ConstraintViolation, match=r"CHECK constraint positive.*n > 0"):
        _write(lake, "ada", n)
    with pytest.raises(ConstraintViolation, match="positive"):
        lake.sql(f"EXECUTE AS USER 'ada' (INSERT INTO app.u VALUES (3, {'NULL' if n is None else n}))")
    with pytest.raises(ConstraintViolation, match="positive"):
        lake.sql("EXECUTE AS USER 'ada' (UPDATE app.u SET n = n - 2 WHERE id = 1)")
    _write(lake, "ada", 7)
    _write(lake, "bob", n)
    assert {report.outcome for report in lake.flush()} == {"done"}
    assert _cold(lake, "u/ada") == [1, 2, 7]


def test_a_message_whose_row_breaks_it_does_not_fit(lake: Lakehouse) -> None:
    _put(lake, "u/ada")
    _seen(lake)
    rows = [{"_user": "ada", "id": 3, "n": 0}, {"_user": "bob", "id": 3, "n": 0}, {"_user": "ada", "id": 4, "n": 7}]
    found = fitted(lake, "app.u", "json", *((None, json.dumps(row).encode()) for row in rows))
    assert [misfit.offset for misfit in found.misfits] == [0]
    assert "CHECK constraint positive" in found.misfits[0].reason
    assert found.batch.rows.column("n").to_pylist() == [0, 7]


@pytest.mark.parametrize(
    ("kind", "text", "kept", "broken"),
    [
        ("DECIMAL(18,2)", "v > 0", "0.01", "0"),
        ("DECIMAL(38,0)", "v >= 0 AND v < 10", "9", "10"),
        ("BOOLEAN", "v = true", "true", "false"),
        ("BOOLEAN", "v = false OR v IS NULL", "NULL", "true"),
        ("DATE", "v >= '2024-01-01'", "'2024-01-01'", "'2023-12-31'"),
        ("TEXT", "v = 'a' OR v = 'b'", "'b'", "'c'"),
        ("DOUBLE", "v <= 1.5", "1.5", "1.6"),
    ],
)
def test_a_constraint_is_understood_as_delta_rs_writes_it(lake: Lakehouse, kind: str, text: str, kept: str, broken: str) -> None:
    """It writes the condition anew: a number beside a DECIMAL as a cast text, `v = true` as `v`."""
    lake.sql(f"CREATE SHARED TABLE app.r (id INT PRIMARY KEY, v {kind}); INSERT INTO app.r VALUES (1, {kept})")
    lake.flush("app.r")
    _delta(lake, "r").alter.add_constraint({"positive": text})
    lake.sql("SELECT * FROM app.r")
    with pytest.raises(ConstraintViolation, match="positive"):
        lake.sql(f"INSERT INTO app.r VALUES (2, {broken})")
    lake.sql(f"INSERT INTO app.r VALUES (2, {kept})")
    assert [report.outcome for report in lake.flush("app.r")] == ["done"]


def test_a_constraint_that_was_dropped_since_refuses_nothing(lake: Lakehouse) -> None:
    _put(lake, "u/ada")
    _seen(lake)
    _delta(lake, "u/ada").alter.drop_constraint("positive")
    _write(lake, "ada", -1)
    assert [report.outcome for report in lake.flush()] == ["done"]


@pytest.mark.slow
def test_a_row_in_the_log_that_breaks_it_stops_the_flush_of_its_scope_by_name(lake: Lakehouse) -> None:
    for user in ("ada", "bob"):
        _write(lake, user, -1)
    _put(lake, "u/ada")
    files = {*(Path(lake.warehouse.uri) / "data").rglob("*.parquet")}
    for _ in range(2):
        reports = {report.scope.user: report for report in lake.flush("app.u")}
        assert reports["ada"].outcome == "failed"
        assert reports["ada"].fault is not None
        assert reports["ada"].fault.code == "UNSUPPORTED"
        assert "positive" in reports["ada"].reason
    assert _cold(lake, "u/ada") == [1, 2]
    assert _cold(lake, "u/bob") == [-1, 1, 2]
    made = {*(Path(lake.warehouse.uri) / "data").rglob("*.parquet")} - files
    assert not [path for path in made if path.parent.name == "ada"]
    assert lake.table("app.u").read(user="ada").num_rows == 3, "the row is in the log"
    for _ in range(2):
        failed = [finding for finding in lake.check() if not finding.passed]
        assert [(finding.subject, "positive" in finding.message) for finding in failed] == [("app.u[ada]", True)]
        assert [one.user for one in lake.status() if "positive" in one.reason] == ["ada"]
        troubles = [one for table in health(lake.warehouse) for one in table.worst if "positive" in one.reason]
        assert [scope.user for one in troubles for scope in one.examples] == ["ada"]
    _write(lake, "ada", 9)
    assert [report.outcome for report in lake.flush("app.u")] == ["done"]
    assert _cold(lake, "u/ada") == [1, 2, 9]
    assert all(finding.passed for finding in lake.check())
    assert not [one for one in lake.status() if "positive" in one.reason]


def test_a_constraint_that_is_not_understood_stops_it_too_and_writes_go_on(lake: Lakehouse) -> None:
    _put(lake, "u/ada", "n % 2 >= 0")
    _seen(lake)
    _write(lake, "ada", 4)
    (report,) = lake.flush("app.u")
    assert report.outcome == "failed"
    assert "positive" in report.reason
    assert [finding.subject for finding in lake.check() if "positive" in finding.message] == ["app.u[ada]"]
    _delta(lake, "u/ada").alter.drop_constraint("positive")
    assert [report.outcome for report in lake.flush("app.u")] == ["done"]
    assert _cold(lake, "u/ada") == [1, 2, 4]


@pytest.mark.slow
def test_a_direct_write_that_breaks_it_changes_nothing(lake: Lakehouse) -> None:
    _put(lake, "d")
    place = Path(lake.warehouse.uri) / "data" / "app" / "d"
    files = {*place.rglob("*")}
    for statement in (
        "INSERT INTO app.d VALUES (3, 0)",
        "UPDATE app.d SET n = 0 WHERE id = 1",
        "INSERT OVERWRITE app.d VALUES (3, NULL)",
    ):
        with pytest.raises(ConstraintViolation, match="positive"):
            lake.sql(statement)
    assert {*place.rglob("*.parquet")} <= files
    lake.sql("INSERT INTO app.d VALUES (3, 3); UPDATE app.d SET n = 10 WHERE id = 1; DELETE FROM app.d WHERE id = 2")
    (rows,) = lake.sql("SELECT n FROM app.d ORDER BY n")
    assert isinstance(rows, ResultRows)
    assert [row["n"] for row in rows.to_pylist()] == [3, 10] == _cold(lake, "d")


def test_a_direct_write_is_refused_where_it_is_not_understood(lake: Lakehouse) -> None:
    turn_on(Path(lake.warehouse.uri) / "data" / "app" / "d", constraint("abs(n) > 0"))
    with pytest.raises(Unsupported, match="CHECK constraint c"):
        lake.sql("INSERT INTO app.d VALUES (3, 3)")


def test_a_restore_brings_no_row_back_that_breaks_it(lake: Lakehouse) -> None:
    _write(lake, "ada", -1)
    lake.flush("app.u")
    lake.sql("EXECUTE AS USER 'ada' (DELETE FROM app.u WHERE id = 3)")
    lake.flush("app.u")
    _put(lake, "u/ada")
    (report,) = lake.restore("app.u", user="ada", version=1, dry_run=False)
    assert report.outcome == "failed"
    assert "positive" in report.reason
    (report,) = lake.restore("app.u", user="ada", version=0, dry_run=False)
    assert report.outcome in ("done", "skipped")
    assert _cold(lake, "u/ada") == [1, 2]
