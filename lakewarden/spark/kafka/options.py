"""The options of a read of a topic, named as those of Spark's own source of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from lakewarden.errors import InvalidArgument
from lakewarden.storage.kafka.topics import Topic, topic_of

_PREFIX = "kafka."
_OWN = ("subscribe", "startingOffsets", "endingOffsets")

Offsets = dict[str, int]
"""Where to go on, by partition: text, as JSON and so Spark's checkpoint has it."""


@dataclass(frozen=True)
class TopicOptions:
    """`starting` and `ending` are `earliest`, `latest`, or the offsets of some partitions."""

    topic: Topic
    starting: str | Offsets | None
    ending: str | Offsets

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TopicOptions:
        """Raises:
        InvalidArgument: an option is missing or unknown, or has a bad value.
        """
        folded = {name.lower(): value for name, value in options.items()}
        known = {name.lower() for name in _OWN}
        for name in folded:
            if name not in known and not name.startswith(_PREFIX):
                raise InvalidArgument(
                    f"unknown option {name!r}; the options are kafka.<setting of the client>, {', '.join(_OWN)}"
                )
        if "subscribe" not in folded or f"{_PREFIX}bootstrap.servers" not in folded:
            raise InvalidArgument(
                'name the topic: .option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "topic")'
            )
        client = {name.removeprefix(_PREFIX): value for name, value in folded.items() if name.startswith(_PREFIX)}
        starting = folded.get("startingoffsets")
        return cls(
            topic_of("", {**client, "topic": folded["subscribe"]}),
            None if starting is None else _offsets("startingOffsets", starting),
            _offsets("endingOffsets", folded.get("endingoffsets", "latest")),
        )


def _offsets(option: str, text: str) -> str | Offsets:
    if text in ("earliest", "latest"):
        return text
    try:
        return msgspec.json.decode(text, type=Offsets)
    except msgspec.DecodeError as error:
        raise InvalidArgument(
            f'{option} {text!r}: it is earliest, latest, or the offsets of partitions, as in {{"0": 23, "1": 0}}'
        ) from error
