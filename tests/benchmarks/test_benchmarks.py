"""The benchmarks run at a tiny size and say something; no time is asserted anywhere."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import pytest

from benchmarks import (
    data,
    floor,
    flush,
    flush_requests,
    fold,
    growth,
    large,
    maintenance,
    million,
    partitions,
    query,
    quiet,
    serve,
    write,
)
from benchmarks.ingest import measure as ingest
from benchmarks.measuring.page import Section, Table, rewrite
from benchmarks.measuring.scale import TINY
from benchmarks.spark import measure as source
from tests.fixtures.minio import MinioServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync waits for what every test of the machine has written; no time counts here."""
    monkeypatch.setattr("benchmarks.measuring.timing.os.sync", lambda: None)


def test_write(tmp_path: Path) -> None:
    assert len(write.run(TINY, tmp_path).tables) == 3


@pytest.mark.slow
def test_million(tmp_path: Path) -> None:
    users, registered = million.run(TINY, tmp_path).tables
    assert [row[0] for row in registered.rows] == ["processor time"]
    assert len(users.rows) == 5


@pytest.mark.slow
def test_query(tmp_path: Path) -> None:
    kept, calls, in_a_worker, beside, not_kept = query.run(TINY, tmp_path).tables
    for table in (kept, not_kept):
        assert [row[0] for row in table.rows] == ["point look-up", "count", "aggregate"]
    assert [row[0] for row in calls.rows] == ["SELECT 1", "point look-up"]
    for table in (calls, in_a_worker, beside):
        assert table.rows
        assert all(len(row) == len(table.head) for row in table.rows)


@pytest.mark.slow
def test_partitions(tmp_path: Path) -> None:
    (table,) = partitions.run(TINY, tmp_path).tables
    assert len(table.rows) == 8
    assert all(len(row) == len(table.head) for row in table.rows)
    assert not list(tmp_path.glob("*/ours"))


@pytest.mark.slow
def test_serve(tmp_path: Path) -> None:
    side_by_side, together, blocks, beside = serve.run(TINY, tmp_path).tables
    assert [row[0] for row in blocks.rows] == ["one by one", "in a block"]
    assert [row[1] for row in side_by_side.rows] == ["1", "2"] * 4
    assert [row[0] for row in together.rows] == ["HTTP", "in process"]
    assert len(beside.rows) == 2


@pytest.mark.parametrize("same_keys", [False, True], ids=["append", "small merge"])
def test_requests_of_a_flush_are_few(minio: MinioServer, *, same_keys: bool) -> None:
    """Over whole cycles of checkpoints, and over one where each flush is another process's first."""
    with flush_requests.counting(minio) as proxy:
        found = flush_requests.counted(proxy, same_keys=same_keys, rounds=10, processes=10)
        theirs = flush_requests.delta_rs(proxy, merge=same_keys, rounds=1)
    steady, alone = ([flush_requests.of_scope(flush) for flush in each] for each in (found.steady, found.alone))
    assert steady.count(min(steady)) == len(steady) - 1, "no cycle with one checkpoint, so its mean says nothing"
    assert flush_requests.cycle_mean(found) <= (9 if same_keys else 8)
    assert mean(map(flush_requests.of_job, found.steady)) <= 13
    assert flush_requests.cycle_mean(found, flush_requests.of_job) <= 14 + 2 / 10, (
        "an open tries whether the store keeps to conditions"
    )
    assert mean(alone) <= mean(steady) + 1, "a process's first flush asks for what is kept of the scope, and for nothing else"
    counted, listed = flush_requests.tables({"ours": found}, {"theirs": theirs})
    assert [row[0] for row in counted.rows] == ["ours", "delta-rs alone, theirs"]
    assert {row[0] for row in listed.rows} == {"scope", "job", ""}
    assert float(listed.rows[-1][3]) == pytest.approx(sum(float(row[3]) for row in listed.rows[:-1]), abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["status", "users_sensor"])
def test_quiet(operation: str, tmp_path: Path) -> None:
    costs = []
    for scopes in TINY.quiet:
        uri = str(tmp_path / str(scopes))
        quiet.make(uri, scopes)
        quiet.measured(operation, uri)
        costs.append(quiet.measured(operation, uri))
    assert len({cost.requests for cost in costs}) == 1
    assert all(cost.requests > 0 for cost in costs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "benchmark", [flush.run, floor.run, growth.run, maintenance.run], ids=["flush", "floor", "growth", "maintenance"]
)
def test_beside_spark(benchmark: object, tmp_path: Path, spark: SparkSession) -> None:
    assert callable(benchmark)
    section: Section = benchmark(TINY, tmp_path, spark)
    assert all(table.rows for table in section.tables)


@pytest.mark.slow
def test_large(tmp_path: Path, spark: SparkSession) -> None:
    (table,) = large.run(TINY, tmp_path, spark).tables
    named = [
        "load",
        "keyed upsert of 1 %",
        "update of a partition",
        "optimize",
        "point look-up",
        "aggregate",
        "time travel",
        "vacuum",
    ]
    assert [row[0].partition(" (")[0] for row in table.rows] == named


@pytest.mark.slow
@pytest.mark.usefixtures("postgres")  # skipped where there is none: the benchmark starts its own
def test_booking(tmp_path: Path, spark: SparkSession) -> None:
    from benchmarks import booking  # Dagster takes seconds to load, and the other tests do not need it

    table, sizes = booking.run(TINY, tmp_path, spark).tables
    assert [row[0] for row in table.rows] == ["the flush", "booking on Postgres", "booking on SQLite"]
    assert len(sizes.rows) == 2


def test_a_section_is_rewritten_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("# Title\n\n## Flush\n\n<!-- begin flush -->\nold\n<!-- end flush -->\n\nkept\n", encoding="utf-8")
    section = Section("flush", "tiny", [Table("What was done.", ("what", "time"), [("ours", "1 s")])], measured_on="a machine")
    rewrite(page, section, NOW)
    text = page.read_text(encoding="utf-8")
    assert "| ours | 1 s |" in text
    assert "old" not in text
    assert text.startswith("# Title\n")
    assert text.endswith("\nkept\n")
    rewrite(page, section, NOW)
    assert page.read_text(encoding="utf-8") == text


def test_a_page_without_the_marks_gets_the_section_at_its_end(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    rewrite(page, Section("write", "tiny", measured_on="a machine"), NOW)
    assert "## Write\n\n<!-- begin write -->" in page.read_text(encoding="utf-8")


def test_rows_of_every_user_once() -> None:
    rows = data.rows(["a", "b"], 5, 3)
    pairs = set(zip(rows["user"].to_pylist(), rows["id"].to_pylist(), strict=True))
    assert pairs == {(user, number) for user in "ab" for number in (5, 6, 7)}


@pytest.mark.slow
def test_ingest(minio: MinioServer) -> None:
    """Killed processes leave each row once; the parts beside Spark need a session of their own."""
    with flush_requests.environment(minio):
        table = ingest.killed(TINY, minio)
    ((_, rows, twice, rejects),) = table.rows
    of = TINY.ingest
    assert (rows, twice, rejects) == (str((of.files - of.broken) * of.rows), "0", str(of.broken))


@pytest.mark.spark
@pytest.mark.slow
def test_spark(tmp_path: Path, spark: SparkSession) -> None:
    reads, writes, streamed = source.run(TINY, tmp_path, spark).tables
    assert [row[0].split(" ")[0] for row in reads.rows] == ["one", "ours,", "ours,", "a"]
    assert len(writes.rows) == 1
    assert [row[0].split(" ")[0] for row in streamed.rows] == ["Delta's", "ours,", "ours,"]


@pytest.mark.slow
def test_fold(tmp_path: Path) -> None:
    equal, unequal, real = fold.run(TINY, tmp_path).tables
    assert [row[:2] for row in equal.rows] == [("no ratio", "1"), ("ratio 3", "1"), ("ratio 3", "6")]
    assert [row[0] for row in unequal.rows] == list(fold.POLICIES)
    assert all(len(row) == len(real.head) for row in real.rows)


def test_unequal_traffic_writes_less_again_with_a_ratio_and_reads_open_no_more_files() -> None:
    """A sample of the figures in docs/performance.md, by the product's own functions."""
    old, new = (fold.simulated(fold.POLICIES[name], 8, 45) for name in ("no ratio, hourly", "ratio 3, hourly"))
    assert new.rows == old.rows
    assert new.written <= 0.45 * old.written
    assert new.files <= 1.05 * old.files
    assert new.dollars <= 1.05 * old.dollars
