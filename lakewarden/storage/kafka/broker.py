"""How clients reach Kafka, and what its errors mean here. Its library is an extra, which this module alone needs to find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.errors import (
    AlreadyExists,
    FencedPublisher,
    InvalidArgument,
    LakewardenError,
    NotFound,
    StorageRefused,
    StorageUnavailable,
    Unsupported,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

SERVERS = "bootstrap.servers"

_PATIENCE = "socket.timeout.ms"
_PATIENCE_MS = "10000"
"""The client's own default is a minute, which is long for a statement whose broker is away."""

_FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "TRANSACTION_COORDINATOR_FENCED"})
_UNKNOWN = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"})
_AWAY = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE", "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT"})


@dataclass(frozen=True)
class Broker:
    """A Kafka cluster, by the settings of librdkafka's clients; `bootstrap.servers` is among them."""

    settings: Mapping[str, str] = field(hash=False)

    @classmethod
    def at(cls, servers: str) -> Broker:
        """The cluster at `host:port,…`."""
        return cls({SERVERS: servers})

    @property
    def servers(self) -> str:
        return self.settings.get(SERVERS, "")

    @property
    def patience(self) -> float:
        """Seconds that one request may take."""
        return float(self._common[_PATIENCE]) / 1000

    @property
    def _common(self) -> dict[str, str]:
        # what the client logs to standard error comes here as an error too
        return {_PATIENCE: _PATIENCE_MS, "log_level": "0", **self.settings}

    def admin(self) -> AdminClient:
        with self.reaching("it"):
            from confluent_kafka.admin import AdminClient  # an extra

            return AdminClient(dict(self._common))

    def producer(self, more: Mapping[str, str]) -> Producer:
        with self.reaching("it"):
            from confluent_kafka import Producer  # an extra

            return Producer({**self._common, **more})

    def consumer(self) -> Consumer:
        """One that is given its offsets, and sees what was committed."""
        settings = {
            "group.id": "lakewarden",  # the client wants one, and none of its offsets are kept
            **self._common,
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "fetch.wait.max.ms": "20",  # the end of a partition is reported when a fetch that waits for more returns
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
        with self.reaching("it"):
            from confluent_kafka import Consumer  # an extra

            return Consumer(settings)

    @contextmanager
    def reaching(self, what: str) -> Iterator[None]:
        """Raises what the client's errors mean.

        Raises:
            Unsupported: the library is not installed.
            InvalidArgument: a setting does not exist, or has a bad value.
            NotFound, AlreadyExists: the topic.
            FencedPublisher: a later producer took over.
            StorageUnavailable: the broker is away, or busy; try again.
            StorageRefused: it refused the request.
        """
        try:
            from confluent_kafka import KafkaException  # an extra
        except ImportError as error:
            raise Unsupported("Kafka's topics need the extra `lakewarden[kafka]`: install it") from error
        try:
            yield
        except KafkaException as error:
            raise self.meant(error.args[0], what) from error

    def meant(self, error: KafkaError, what: str) -> LakewardenError:
        """The error of ours that says the same of `what`."""
        name, said = error.name(), f"{error.str()} ({error.name()})"
        if name in _FENCED:
            return FencedPublisher(f"another producer took over {what}: only the last one that was started goes on")
        if name in _UNKNOWN:
            return NotFound(f"Kafka at {self.servers} has no {what}: {said}")
        if name == "TOPIC_ALREADY_EXISTS":
            return AlreadyExists(f"Kafka at {self.servers} has {what} already")
        if name in ("_INVALID_ARG", "INVALID_CONFIG", "TOPIC_EXCEPTION", "_CONFLICT"):
            return InvalidArgument(f"a setting of Kafka for {what} is not valid: {said}")
        if name in _AWAY or error.retriable() or error.txn_requires_abort():
            return StorageUnavailable(f"Kafka at {self.servers} could not be reached for {what}: {said}; try again")
        return StorageRefused(f"Kafka at {self.servers} refused {what}: {said}")
