"""Methods of `Lakehouse` that delegate to its nouns `sessions`, `loads`, `pipelines`, `topics`, `subscriptions` and `jobs`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from lakewarden.base.clock import Pause, wait
from lakewarden.base.commit_metadata import Metadata
from lakewarden.catalog.operations import Queueable
from lakewarden.catalog.state.live_queries import LiveQuery
from lakewarden.client.nouns import Nouns

if TYPE_CHECKING:
    from lakewarden.catalog.state.jobs.job import Job
    from lakewarden.client.topics import RelayOptions
    from lakewarden.ingest.load.run import OnReject
    from lakewarden.ingest.load.value import LoadReport
    from lakewarden.ingest.objects.report import IngestReport
    from lakewarden.ingest.relay.report import RelayReport
    from lakewarden.ingest.topics.formats import ValueFormat
    from lakewarden.ingest.topics.report import ConsumeReport
    from lakewarden.log.once import Resume
    from lakewarden.spark.session import SparkSession
    from lakewarden.sql.results import Result
    from lakewarden.sql.session import SqlSession
    from lakewarden.sql.uploads import File
    from lakewarden.tables.reading.freshness import Freshness
    from lakewarden.tables.subscriptions.subscription import Subscription


class WorkDelegates(Nouns):
    """The methods of `Lakehouse` that work with rows, one-line delegates to its nouns."""

    def sql(
        self,
        text: str,
        *,
        user: str = "root",
        role: str = "system",
        freshness: Freshness | None = None,
        wait: bool = True,
        files: Mapping[str, File] | None = None,
        each: Callable[[Result], None] | None = None,
        metadata: Metadata | None = None,
    ) -> list[Result]:
        """Runs the statements of a text in order, after checking the syntax and rights of all."""
        return self.sessions.sql(
            text, user=user, role=role, freshness=freshness, wait=wait, files=files, each=each, metadata=metadata
        )

    def session(self, *, user: str, role: str = "user") -> SqlSession:
        """A session for one user in one role, through the gate."""
        return self.sessions.open(user=user, role=role)

    def spark(self) -> SparkSession:
        """The Spark session, in which `format("lakewarden")` reads and writes tables of this warehouse."""
        return self.sessions.spark()

    def load(
        self,
        table: str,
        paths: str | Sequence[str],
        *,
        format: str | None = None,
        user: str | None = None,
        user_column: str | None = None,
        on_reject: OnReject = "refuse",
        once: str | None = None,
        resume: Resume | None = None,
        metadata: Metadata | None = None,
    ) -> LoadReport:
        """Loads CSV, JSON lines or Parquet files into a table."""
        return self.loads.load(
            table,
            paths,
            format=format,
            user=user,
            user_column=user_column,
            on_reject=on_reject,
            once=once,
            resume=resume,
            metadata=metadata,
        )

    def ingest(
        self,
        table: str,
        objects: str | Sequence[str] | None = None,
        *,
        force: bool | None = None,
        limit: int | None = None,
        resume: Resume | None = None,
        job_id: str | None = None,
        metadata: Metadata | None = None,
    ) -> IngestReport:
        """Takes objects into the table of a pipeline: what is new in its source, or those that are named."""
        return self.pipelines.ingest(table, objects, force=force, limit=limit, resume=resume, job_id=job_id, metadata=metadata)

    def relay(self, table: str, topic: str | None = None, **options: Unpack[RelayOptions]) -> RelayReport:
        """Publishes the changes of a table that a topic of Kafka lacks, each once: docs/kafka.md."""
        return self.topics.relay(table, topic, **options)

    def consume(
        self,
        table: str,
        topic: str,
        *,
        brokers: str,
        format: ValueFormat = "debezium-json",
        user: str | None = None,
        user_column: str | None = None,
        skip_lost: bool = False,
        resume: Resume | None = None,
        client: Mapping[str, str] | None = None,
    ) -> ConsumeReport:
        """Takes the messages of a topic of Kafka into a table, each once: docs/kafka.md."""
        return self.topics.consume(
            table,
            topic,
            brokers=brokers,
            format=format,
            user=user,
            user_column=user_column,
            skip_lost=skip_lost,
            resume=resume,
            client=client,
        )

    def subscribe(
        self,
        text: str,
        *,
        user: str = "root",
        role: str = "system",
        from_seq: int | None = None,
        last_rows: int | None = None,
        batch_size: int = 10_000,
        interval: float = 0.5,
        timeout: float | None = None,
        pause: Pause = wait,
    ) -> Subscription:
        """The rows that a query selects, then each change to them: docs/subscriptions.md."""
        return self.subscriptions.subscribe(
            text,
            user=user,
            role=role,
            from_seq=from_seq,
            last_rows=last_rows,
            batch_size=batch_size,
            interval=interval,
            timeout=timeout,
            pause=pause,
        )

    def live_queries(self) -> list[LiveQuery]:
        """The subscriptions of every process, oldest first."""
        return self.subscriptions.live_queries()

    def kill_live_query(self, live_id: str) -> LiveQuery:
        """Ends a subscription in any process, at its next poll."""
        return self.subscriptions.kill(live_id)

    def enqueue(
        self, operation: Queueable, *tables: str, user: str | None = None, to: str | None = None, metadata: Metadata | None = None
    ) -> Job:
        """Requests an operation that `run_jobs` will run, in this process or another."""
        return self.jobs.enqueue(operation, *tables, user=user, to=to, metadata=metadata)

    def waiting_jobs(self) -> list[Job]:
        """The jobs that `run_jobs` would run now, oldest first."""
        return self.jobs.waiting()

    def run_jobs(self, only: Collection[str] | None = None) -> list[Job]:
        """Runs the queued jobs (`only`: these ids), oldest first."""
        return self.jobs.run(only)

    def kill_job(self, job_id: str) -> Job:
        """Cancels a job that is not over; a running one stops before its next scope."""
        return self.jobs.kill(job_id)
