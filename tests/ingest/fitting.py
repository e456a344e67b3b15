"""Fits messages into a table without a broker, as `consume` does."""

from __future__ import annotations

from lakewarden import Lakehouse
from lakewarden.ingest.record_fit import Fit, MessageFit
from lakewarden.ingest.record_formats import decoder
from lakewarden.storage.kafka_topics import TopicMessage


def fitted(lake: Lakehouse, name: str, value_format: str, *messages: tuple[bytes | None, bytes | None]) -> MessageFit:
    """Of messages with their keys and values."""
    client = lake.table(name)
    fit = Fit.of(client, decoder(value_format))
    return fit.fit([TopicMessage(at, key, value, 0) for at, (key, value) in enumerate(messages)])
