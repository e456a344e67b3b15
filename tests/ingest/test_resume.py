"""A consumer behind a repair: it goes on where its rows are back, and stops where they are not until it is told.

The broker is a list of messages here: what is asked of it is in tests/kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.faults import no_faults
from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import LogSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.state.floor import floor_at
from lakewarden.errors import FailedPrecondition
from lakewarden.ingest.consume import ConsumeRequest, PartitionConsumer
from lakewarden.ingest.record_fit import Fit
from lakewarden.ingest.record_formats import decoder
from lakewarden.ingest.topic_report import PartitionReport
from lakewarden.log.once import Resume
from lakewarden.storage.kafka_topics import Broker, MessageBatch, OffsetRange, Topic, TopicMessage

KEYED, KEYLESS = "n.keyed", "n.keyless"
APP = "kafka/topic/0"


@dataclass
class Messages:
    """One partition."""

    values: list[bytes] = field(default_factory=list)

    def bounds(self, _partition: int) -> OffsetRange:
        return OffsetRange(0, len(self.values))

    def read(self, _partition: int, at: int, most: int, high: int) -> MessageBatch:
        end = min(at + most, high)
        return MessageBatch(tuple(TopicMessage(n, None, self.values[n], 0) for n in range(at, end)), end)


@dataclass
class Scene:
    root: Path
    messages: Messages = field(default_factory=Messages)

    def __post_init__(self) -> None:
        self.lake = self.opened()
        self.lake.create_namespace("n")
        columns = [Column("id", "BIGINT", nullable=False), Column("text", "TEXT")]
        self.lake.create_table(KEYED, type="SHARED", columns=columns, primary_key=["id"])
        self.lake.create_table(KEYLESS, type="SHARED", columns=columns, primary_key=[])

    def opened(self) -> Lakehouse:
        floor_at.cache_clear()
        return Lakehouse.open(str(self.root / "w"), settings=Settings(log=LogSettings(retention_seconds=0)))

    def again(self) -> None:
        self.lake.close()
        self.lake = self.opened()

    def send(self, *rows: tuple[int, str]) -> None:
        self.messages.values += [json.dumps({"id": id_, "text": text}).encode() for id_, text in rows]

    def take(self, name: str, resume: Resume | None = None) -> PartitionReport:
        client = self.lake.table(name)
        fit = Fit.of(client, decoder("json"))
        request = ConsumeRequest(TableName.parse(name), Topic(Broker.at("nowhere:1"), "topic"), "json", resume=resume)
        return PartitionConsumer(client, request, fit, self.messages, APP, 0, no_faults).take()

    def rows(self, name: str) -> list[tuple[object, object]]:
        return sorted((row["id"], row["text"]) for row in self.lake.table(name).read().to_pylist())

    def place(self, name: str) -> Path:
        return self.root / "w" / "data" / "n" / name.partition(".")[2]

    def uncertain(self) -> set[str]:
        return {writer.name for one in self.lake.repair() for writer in one.writers_uncertain}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Two batches are taken into each table, and flushed."""
    made = Scene(tmp_path)
    for row in ((1, "a"), (2, "b")):
        made.send(row)
        for name in (KEYED, KEYLESS):
            assert made.take(name).written == 1
            made.lake.flush(KEYED)
    yield made
    made.lake.close()


def newest_commit(scene: Scene, name: str) -> Path:
    return max((scene.place(name) / "_delta_log").glob("*.json"))


@pytest.mark.parametrize("name", [KEYED, KEYLESS])
def test_rows_that_are_back_are_not_taken_again(scene: Scene, name: str) -> None:
    newest_commit(scene, name).unlink()
    scene.again()
    assert scene.uncertain() == set()
    assert (scene.take(name).messages, scene.rows(name)) == (0, [(1, "a"), (2, "b")])


@pytest.mark.parametrize(("how", "after"), [("repeat", [(1, "a"), (2, "b"), (3, "c")]), ("skip", [(1, "a"), (3, "c")])])
@pytest.mark.parametrize("name", [KEYED, KEYLESS])
def test_rows_that_are_lost_are_taken_again_on_request(
    scene: Scene, name: str, how: Resume, after: list[tuple[object, object]]
) -> None:
    max(scene.place(name).glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns).unlink()
    scene.again()
    assert len(scene.uncertain()) == 1
    scene.send((3, "c"))
    for _ in range(2):
        with pytest.raises(FailedPrecondition, match=APP):
            scene.take(name)
    scene.take(name, how)
    assert scene.rows(name) == after
    assert scene.take(name, how).messages == 0


def test_an_old_message_replaces_no_newer_row_where_the_only_cut_is_lost(scene: Scene) -> None:
    scene.lake.table(KEYED).write([{"id": 1, "text": "newer"}])
    scene.lake.flush(KEYED)
    log = scene.lake.table(KEYED).log
    for cut in (scene.root / "w" / "_lakewarden" / log.home / "cuts").iterdir():
        cut.unlink()
    scene.again()
    assert scene.uncertain() == {"*"}
    with pytest.raises(FailedPrecondition):
        scene.take(KEYED)
    assert scene.take(KEYED, "skip").messages == 0
    assert scene.rows(KEYED) == [(1, "newer"), (2, "b")]
    scene.send((3, "c"))
    assert scene.take(KEYED).messages == 1


@pytest.mark.parametrize("name", [KEYED, KEYLESS])
def test_columns_that_come_after_a_repair_leave_it_stopped(scene: Scene, name: str) -> None:
    max(scene.place(name).glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns).unlink()
    scene.again()
    scene.lake.repair()
    scene.lake.sql(f"ALTER TABLE {name} ADD COLUMN more TEXT")
    with pytest.raises(FailedPrecondition):
        scene.take(name)
    scene.take(name, "repeat")
    assert scene.rows(name) == [(1, "a"), (2, "b")]
