"""Statements whose files tasks of Spark write, and flushes, are all or nothing: the process is killed, or its JVM, or a worker.

`LAKEWARDEN_SPARK_KILLS` is the number of kills, `LAKEWARDEN_SPARK_SEED` the seed.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

import psutil
import pytest
from deltalake import DeltaTable

from lakewarden import Lakehouse
from tests.fixtures.gate import kills
from tests.fixtures.lakes import check_second_opinions
from tests.spark.kills.expected import COLUMNS, Expected, Row
from tests.spark.kills.writer import DONE
from tests.spark.process import SparkProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.disk]

_SEED = int(os.environ.get("LAKEWARDEN_SPARK_SEED", "1"))
_FIRST_GUESS = 2.0
"""Seconds that a statement takes, until one of its kind has ended."""
_TABLES = {
    "app.wide": "(id BIGINT, day INT, v TEXT) PARTITION BY (day)",
    "app.copy": "(id BIGINT, day INT, v TEXT) PARTITION BY (day)",
    "app.keyed": "(id BIGINT PRIMARY KEY, day INT, v TEXT)",
}
_ROWS = "SELECT i AS id, CAST(i % 5 AS INT) AS day, CONCAT('value ', CAST(i AS TEXT)) AS v FROM range({}, {}) r(i)"
_STATEMENTS = (
    "UPDATE app.wide SET v = CONCAT(v, '.{turn}') WHERE id % 7 = {some} % 7",
    "UPDATE app.wide SET day = CAST((day + 1) % 5 AS INT) WHERE id % 11 = {some} % 11",
    "DELETE FROM app.wide WHERE id % 13 = {some} % 13",
    "INSERT INTO app.wide SELECT id + 10000 * {turn}, day, v FROM app.copy WHERE day <> {some} % 5",
    "INSERT OVERWRITE app.copy SELECT id, day, CONCAT(v, '+') FROM app.wide WHERE id < 1200",
    "OPTIMIZE app.wide",
    "OPTIMIZE app.keyed",
    "COMPACT app.keyed",
    "LOAD app.wide {csv}",
    "FLUSH app.keyed",
    "FLUSH app.keyed",
    "FLUSH app.keyed",
    "UPDATE app.keyed SET v = CONCAT(v, '!') WHERE day = {some} % 5",
)
"""What begins with FLUSH gets rows before it; and what changes `app.keyed` past its log finds none of them pending."""
_KEYED = "INSERT INTO app.keyed {rows} ON CONFLICT (id) DO UPDATE SET v = '{turn}'"


@dataclass
class Campaign:
    uri: str
    writer: SparkProcess
    chance: random.Random
    csv: Path
    """Rows to load."""
    expected: Expected = field(default_factory=Expected)
    kills: Counter[str] = field(default_factory=Counter[str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """That the last statement of a kind took."""
    turn: int = 0

    def make(self) -> None:
        with Lakehouse.open(self.uri) as lake:
            lake.sql("CREATE NAMESPACE app")
            for name, columns in _TABLES.items():
                lake.sql(f"CREATE SHARED TABLE {name} {columns}")
                self.expected.make(name, ", PRIMARY KEY (id)" if "KEY" in columns else "")
                for start in (0, 500, 1000):
                    text = f"INSERT INTO {name} {_ROWS.format(start, start + 500)}"
                    lake.sql(text)
                    self.expected.run(text)

    def step(self) -> None:
        """A statement, in whose middle something may die."""
        self.turn += 1
        kind = self.chance.choice(_STATEMENTS)
        text = self._prepared(kind)
        self.expected.begin()
        began = time.monotonic()
        self.writer.say(text)
        self.expected.run(text)
        moment = self.chance.random() * 1.2 * self.seconds.get(kind, _FIRST_GUESS)
        if self.writer.answers_within(moment) or self._loses_a_worker():
            answer = self.writer.answer()
            assert answer == DONE, f"{text}: {answer}"
            self.seconds[kind] = time.monotonic() - began
            self.expected.settle(kept=True)
            self._check(text)
        else:
            self._die(text)

    def end(self) -> None:
        """Once the files of dead writers are old, a vacuum leaves those that the newest versions name."""
        with Lakehouse.open(self.uri, clock=lambda: datetime.now(UTC) + timedelta(hours=25)) as lake:
            lake.flush()
            assert all(report.fault is None for report in lake.vacuum(retain_hours=0, force=True, dry_run=False))
            assert not [finding for finding in lake.check() if not finding.passed]
        self._check("the end")
        for name in _TABLES:
            place = Path(self.uri, "data", *name.split("."))
            left = {path for path in place.rglob("*") if path.suffix in (".parquet", ".arrow") and "_delta_log" not in path.parts}
            assert left == {Path(unquote(uri)) for uri in DeltaTable(str(place)).file_uris()}

    def _prepared(self, kind: str) -> str:
        """The statement, once it can be sent."""
        text = kind.format(turn=self.turn, some=self.chance.randrange(1000), csv=self.csv)
        if text.startswith("FLUSH"):
            start = self.chance.randrange(0, 3000)
            upsert = _KEYED.format(rows=_ROWS.format(start, start + 400), turn=self.turn)
            with Lakehouse.open(self.uri) as lake:
                lake.sql(upsert)
            self.expected.run(upsert)
        elif text.startswith("UPDATE app.keyed"):
            with Lakehouse.open(self.uri) as lake:
                lake.flush("app.keyed")
        return text

    def _loses_a_worker(self) -> bool:
        """Kills a Python worker of Spark's; its task is tried again, and nothing is there twice."""
        if self.chance.random() < 0.5:
            return False
        family = psutil.Process(self.writer.pid).children(recursive=True)
        workers = [worker for each in family if _is_daemon(each) for worker in each.children()]
        if not workers:
            return False
        self.chance.choice(workers).kill()
        self.kills["worker"] += 1
        return True

    def _die(self, text: str) -> None:
        jvm = self.chance.random() < 0.5
        self.writer.kill(jvm=jvm)
        self.kills["process and JVM" if jvm else "process"] += 1
        after = {name: self.expected.rows(name) for name in _TABLES}
        self.expected.settle(kept=self._found() == after)
        self._check(f"killed in {text}")
        self.writer.start()
        self.writer.answer()

    def _found(self) -> dict[str, list[Row]]:
        with Lakehouse.open(self.uri) as lake:
            found = {name: lake.table(name).read().select(COLUMNS) for name in _TABLES}
        return {
            name: sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=str)
            for name, rows in found.items()
        }

    def _check(self, text: str) -> None:
        for name, rows in self._found().items():
            expected = self.expected.rows(name)
            assert rows == expected, f"turn {self.turn}, {text}: {name} has other rows: {_difference(rows, expected)}"
        with Lakehouse.open(self.uri) as lake:
            check_second_opinions(lake)


def _is_daemon(process: psutil.Process) -> bool:
    """Whether it is what forks Spark's Python workers, or one of them."""
    try:
        return "pyspark.daemon" in process.cmdline()
    except psutil.Error:  # it has ended
        return False


def _difference(found: list[Row], expected: list[Row]) -> str:
    more, fewer = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
    return f"{more.total()} more, as {list(more)[:3]}; {fewer.total()} fewer, as {list(fewer)[:3]}"


@pytest.fixture
def campaign(warehouse_uri: str, tmp_path: Path) -> Iterator[Campaign]:
    writer = SparkProcess(["tests.spark.kills.writer", warehouse_uri], tmp_path / "writer.log")
    csv = tmp_path / "rows.csv"
    csv.write_text("id,day,v\n" + "".join(f"{id_},{id_ % 5},loaded {id_}\n" for id_ in range(50_000, 51_000)))
    made = Campaign(warehouse_uri, writer, random.Random(_SEED), csv)
    made.make()
    writer.start()
    writer.answer()
    try:
        yield made
    finally:
        writer.kill()


@pytest.mark.timeout(int(os.environ.get("LAKEWARDEN_SPARK_KILLS", "3")) * 120 + 600)
@kills("LAKEWARDEN_SPARK_KILLS", gate=1, night=3)
def test_killed_writes_of_tasks_are_whole_or_absent(campaign: Campaign, kills: int) -> None:
    while campaign.kills.total() < kills:
        campaign.step()
    campaign.end()
