"""A storage is away: topics of tables elsewhere go on, both ways; those of its tables fail by its name, and lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import StorageUnavailable
from lakewarden.storage import remote
from lakewarden.storage.clients import Outages
from lakewarden.storage.kafka_topics import create_topic
from tests.fixtures.kafka import KafkaServer
from tests.fixtures.minio import MinioServer
from tests.fixtures.stores_away import far_storage, gone
from tests.storage.kafka.test_consume import send
from tests.storage.kafka.topics import topic_for

pytestmark = [pytest.mark.disk, pytest.mark.slow, pytest.mark.xdist_group("stores_away")]


def test_topics_of_other_tables_go_on(
    kafka: KafkaServer,
    minio: MinioServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    topic = topic_for(kafka, request)
    create_topic(topic, 1, None)
    with far_storage(minio, tmp_path / "topics-away" / "lake", monkeypatch) as far:
        send(topic, [{"id": 80, "s": "k"}, {"id": 81, "s": "k"}])
        with gone(far, "refused", minio, monkeypatch), Lakehouse.open(str(far.root)) as lake:
            for name in ("n.snear", "n.sfar"):  # rows land in the log, which is the warehouse's
                assert lake.consume(name, topic.name, brokers=kafka.servers, format="json").written == 2
            assert lake.relay("n.snear", f"{topic.name}-near", brokers=kafka.servers).messages == 5
            with pytest.raises(StorageUnavailable, match="storage 'far'"):
                lake.relay("n.sfar", f"{topic.name}-far", brokers=kafka.servers)
        monkeypatch.setattr(remote, "OUTAGES", Outages())  # another process, which did not wait for it in vain
        with Lakehouse.open(str(far.root)) as lake:
            assert lake.consume("n.sfar", topic.name, brokers=kafka.servers, format="json").messages == 0, "they are taken"
            assert lake.relay("n.sfar", f"{topic.name}-far", brokers=kafka.servers).messages == 5
            assert lake.table("n.sfar").read().sort_by("id").column("id").to_pylist() == [0, 1, 2, 80, 81]
