"""`lake.topics`: tables and Kafka's topics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TYPE_CHECKING, Literal, Required, TypedDict, Unpack

from lakewarden.base.scope import TableName
from lakewarden.client.parts import Noun
from lakewarden.errors import InvalidArgument
from lakewarden.tables.warehouse import find_table, live_tables

if TYPE_CHECKING:
    from lakewarden.catalog.model import Catalog, Table
    from lakewarden.ingest.consume import Consumer
    from lakewarden.ingest.record_formats import ValueFormat
    from lakewarden.ingest.relay import Relay
    from lakewarden.ingest.relays import BackgroundRelays, RelayOutcome
    from lakewarden.ingest.topic_report import ConsumeReport, RelayReport
    from lakewarden.log.once import Resume
    from lakewarden.storage.kafka_topics import Topic

_SERVERS = "bootstrap.servers"


class RelayOptions(TypedDict, total=False):
    """What `Topics.relaying` takes."""

    brokers: str | None
    """`host:port`, several separated by commas. A table with `log.system` kafka has both by its options."""
    mode: Literal["auto", "upsert", "all"]
    """`upsert` publishes the row after each change, and of a deleted row its key; `all` also the row before. By default `upsert`
    of a table with a primary key."""
    start: str | None
    """Where a topic that carries nothing yet begins: `full`, `latest`, `timestamp:…` or `seq:…`. By default at the creation of a
    table that has it by its options, while all changes since are kept, and else `full`."""
    restart: bool
    """Begin there again."""
    partitions: int
    """Of a topic that has to be created."""
    client: Mapping[str, str] | None
    """Further settings of librdkafka's client."""


class ConsumeOptions(TypedDict, total=False):
    """What `Topics.consuming` takes."""

    brokers: Required[str]
    """`host:port`, several separated by commas."""
    format: ValueFormat
    """Of the values: `debezium-json`, which is the default, or `json` with the row as an object."""
    user: str | None
    """Whose rows they are (USER and STREAM tables)."""
    user_column: str | None
    """Instead, the field that names each row's user; `_user` by default."""
    skip_lost: bool
    """Go on where messages expired before they were taken."""
    client: Mapping[str, str] | None
    """Further settings of librdkafka's client, such as `security.protocol`."""


class TopicCalls(Noun):
    """The calls of `lake.topics` that `Lakehouse` has, too."""

    def relay(self, table: str, topic: str | None = None, **options: Unpack[RelayOptions]) -> RelayReport:
        """Publishes the changes that the topic lacks, once. Arguments and errors as of `relaying`."""
        with Topics(self._parts).relaying(table, topic, **options) as relay:
            return relay.look()

    def consume(
        self, table: str, topic: str, *, resume: Resume | None = None, **options: Unpack[ConsumeOptions]
    ) -> ConsumeReport:
        """Takes the committed messages of a topic into a table, each once, whatever dies: docs/kafka.md.

        Args:
            resume: how to go on where a repair left uncertain which were taken: `repeat` takes again what may be there, `skip`
                leaves out what may be missing.
            options: `ConsumeOptions`.

        Raises:
            NotFound: the table or the topic does not exist.
            InvalidArgument: a bad format or setting, or whose the rows are does not fit the table.
            FailedPrecondition: messages expired before they were taken; or a repair left uncertain which were.
            Unsupported: the extra `lakewarden[kafka]` is not installed.
            Conflict, StorageUnavailable: try again: what was taken is not taken twice.
        """
        with Topics(self._parts).consuming(table, topic, **options) as consumer:
            return consumer.look(resume)


class Topics(TopicCalls):
    """`lake.topics`."""

    @contextmanager
    def relaying(self, table: str, topic: str | None = None, **options: Unpack[RelayOptions]) -> Iterator[Relay]:
        """Opens the relay that carries a table's changes to a topic, each once: docs/kafka.md. Each `look` publishes what is new.

        Args:
            topic: by default named after the table; it is created if it does not exist.
            options: `RelayOptions`.

        Raises:
            NotFound: the table does not exist, or the topic was deleted.
            InUse: the topic carries another table.
            InvalidArgument: a bad setting or name, or the table has no changes of that mode.
            Unsupported: the extra `lakewarden[kafka]` is not installed.
            StorageUnavailable, StorageRefused: the broker.
        """
        from lakewarden.ingest.relay import RelayRequest, relaying
        from lakewarden.tables.changes.feed import ChangeFeed  # imports Arrow, with what follows
        from lakewarden.tables.changes.value import Start

        _check_names(RelayOptions, options)
        warehouse, start = self._parts.warehouse, options.get("start")
        found = find_table(warehouse.catalog.read(), TableName.parse(table))
        request = RelayRequest(
            _topic(found, topic, options.get("brokers"), options.get("client")),
            options.get("mode", "auto"),
            None if start is None else Start.parse(start),
            options.get("restart", False),
            options.get("partitions", 1),
        )
        with relaying(found, request, ChangeFeed(warehouse, found.name, table_id=found.id), warehouse.clock) as relay:
            yield relay

    def relay_every(self) -> list[RelayOutcome]:
        """Publishes the changes that the topics of all tables with `log.system` kafka lack, once, each as of `relay` by its own
        options. An error of one table is in its outcome.
        """
        from lakewarden.ingest.relays import outcomes_of  # imports Arrow

        return outcomes_of(_with_topic(self._parts.warehouse.catalog.read()), self.relay)

    @contextmanager
    def relaying_in_background(self, only: str | None = None, **options: Unpack[RelayOptions]) -> Iterator[BackgroundRelays]:
        """The same, or for one of these tables, beside other work and in any number of processes at once: one of them publishes
        a topic, the others stand by.

        A broker that is away, or another error of a table, is in the outcome of that table, and is retried.
        """
        from lakewarden.ingest.relays import BackgroundRelays  # imports Arrow

        def tables() -> list[Table]:
            found = _with_topic(self._parts.warehouse.catalog.recent())
            return [table for table in found if only in (None, str(table.name))]

        def opened(table: Table) -> AbstractContextManager[Relay]:
            return self.relaying(str(table.name), **options)

        with closing(BackgroundRelays(tables, opened, lambda table: self.relay_status(str(table.name)))) as relays:
            yield relays

    def relay_status_of_every(self) -> list[RelayOutcome]:
        """How far the topics of all tables with `log.system` kafka follow them."""
        from lakewarden.ingest.relays import outcomes_of  # imports Arrow

        return outcomes_of(_with_topic(self._parts.warehouse.catalog.recent()), self.relay_status)

    def relay_status(
        self, table: str, topic: str | None = None, *, brokers: str | None = None, client: Mapping[str, str] | None = None
    ) -> RelayReport:
        """How far the topic follows the table, without a change. Raises as `relaying`."""
        from lakewarden.ingest.relay import report
        from lakewarden.storage.kafka_publisher import last_position
        from lakewarden.tables.changes.feed import ChangeFeed  # imports Arrow, with what follows

        warehouse = self._parts.warehouse
        found = find_table(warehouse.catalog.read(), TableName.parse(table))
        to = _topic(found, topic, brokers, client)
        return report(found, to, last_position(to), ChangeFeed(warehouse, found.name))

    @contextmanager
    def consuming(self, table: str, topic: str, **options: Unpack[ConsumeOptions]) -> Iterator[Consumer]:
        """Opens the ingest of a topic, of which each `look` takes what is new. Into a dynamic table it is a stream, and the only
        one while it is open, also while no message comes. Arguments and errors as of `consume`.

        Raises:
            Conflict: another stream writes to the dynamic table.
        """
        from lakewarden.ingest.consume import ConsumeRequest, consuming  # imports Arrow

        _check_names(ConsumeOptions, options)
        name, warehouse = TableName.parse(table), self._parts.warehouse
        source = _topic(find_table(warehouse.catalog.read(), name), topic, options.get("brokers"), options.get("client"))
        request = ConsumeRequest(
            name,
            source,
            options.get("format", "debezium-json"),
            options.get("user"),
            options.get("user_column"),
            options.get("skip_lost", False),
        )
        with consuming(warehouse, request) as consumer:
            yield consumer


def _with_topic(catalog: Catalog) -> list[Table]:
    """The tables that have a topic of their own."""
    from lakewarden.tables.dynamic import topic_of_table  # imports Kafka's names

    return [table for table in live_tables(catalog) if topic_of_table(table) is not None]


def _topic(table: Table, name: str | None, brokers: str | None, client: Mapping[str, str] | None) -> Topic:
    """Raises InvalidArgument: no brokers are named."""
    from lakewarden.storage.kafka_topics import topic_of
    from lakewarden.tables.dynamic import topic_of_table

    own = topic_of_table(table)
    if own is not None and brokers is None and name is None and table.dynamic is not None:
        return topic_of(str(table.name), {**table.dynamic.kafka, **(client or {})})
    if brokers is None:
        raise InvalidArgument(f"name the brokers that have the topic of {table.name}, such as localhost:9092")
    return topic_of(str(table.name), {**(client or {}), _SERVERS: brokers, **({"topic": name} if name else {})})


def _check_names(taken: type, options: Collection[str]) -> None:
    """As Python does where a call names its options one by one; a type checker sees them, and not everybody runs one.

    Raises:
        TypeError: there is no option of that name.
    """
    if unknown := sorted(set(options) - taken.__annotations__.keys()):
        raise TypeError(f"there is no option {unknown[0]!r}; the options are {', '.join(sorted(taken.__annotations__))}")
