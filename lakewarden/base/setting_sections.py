"""The sections of the settings: each with its unit, default and reason (`base.settings`)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=1 << 10)]
"""Bytes."""
Seconds = Annotated[float, Meta(gt=0)]
Price = Annotated[float, Meta(ge=0, le=1_000_000)]


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    segment_max_rows: Annotated[
        int,
        Meta(ge=1, le=1_048_576),
        "The most rows of one log segment; a larger write of one user is staged, of many users several segments.",
    ] = 262_144
    segment_max_bytes: Annotated[Size, "Approximate bytes of one log segment."] = 64 << 20
    carry_below: Annotated[
        float,
        Meta(ge=0, le=1),
        "Move unsettled rows out of settled segments when they are less than this share of the segments' bytes.",
    ] = 0.5
    retention_seconds: Annotated[
        float, Meta(ge=0), "Seconds that flushed rows stay readable for subscribers that reconnect (log_retention)."
    ] = 3600.0
    gather_seconds: Annotated[
        float,
        Meta(ge=0),
        "The most seconds that a segment waits for INSERTs by key that are under way in the same process, so that they share"
        " it; without such INSERTs, it does not wait.",
    ] = 0.05


class FlushSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    in_process_below: Annotated[Natural, "Flush fewer scopes than this in the calling process, without Spark."] = 64
    large_scope_bytes: Annotated[
        Positive,
        "A scope with more bytes than this to rewrite goes through Spark DataFrames; of one with partitions, those of its two"
        " largest partitions count, and 16 times as many in all.",
    ] = 256 << 20
    compact_after: Annotated[
        bool, "Compact the scopes that a flush wrote, directly after it (Storage Tiers, flush.compaction.enabled)."
    ] = False
    attempts: Annotated[Positive, "How often a scope's flush is tried when other commits interfere."] = 5


class CompactionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    min_eligible_segments: Annotated[int, Meta(ge=2), "Small trailing files that a scope needs before it is compacted."] = 5
    max_segments_per_run: Annotated[int, Meta(ge=2), "The most files that one compaction of a scope takes."] = 8
    user_max_segment_rows: Annotated[Positive, "Rows a compacted file of a USER scope may have; fewer make a file small."] = (
        10_000
    )
    shared_max_segment_rows: Annotated[Positive, "The same for SHARED tables."] = 25_000
    ratio: Annotated[
        float,
        Meta(ge=0, le=1_000_000),
        "Compactions that run by themselves leave a file with more than this many times the rows of the newer ones together,"
        " and packings one with this many times the bytes of the smaller ones, so that rows are written again less often; 0"
        " takes all that fit. A table's COMPACTION_RATIO comes before it.",
    ] = 3.0


class StorageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user_tables_template: Annotated[
        str,
        "Where the storage `local` of a new warehouse keeps scopes of USER tables. In a warehouse that is there, ALTER"
        " STORAGE changes it.",
    ] = "{namespace}/{tableName}/{userId}"
    shared_tables_template: Annotated[str, "The same for SHARED tables."] = "{namespace}/{tableName}"


class MaintenanceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target_file_size: Annotated[Size, "Bytes of the files that optimize writes when a table has no TARGET_FILE_SIZE."] = 128 << 20
    retention_hours: Annotated[Natural, "Hours that vacuum keeps removed files when a table has no DELETED_RETENTION_HOURS."] = (
        168
    )
    scheduled_deletes: Annotated[
        bool,
        "Let Dagster's schedules delete: `vacuum_weekly` then deletes files past the retention, which ends restores to older"
        " versions. Until the warehouse's owner sets this, it only lists them.",
    ] = False
    preview_rows: Annotated[
        int,
        Meta(ge=0, le=10),
        "Rows that the preview of a restore shows in Dagster, to all who see its pages and until the run is deleted; 0 where"
        " they may not read users' rows.",
    ] = 10
    fence_retention_hours: Annotated[
        int,
        Meta(ge=48),
        "Hours that the markers which refuse late writers stay after a drop or an erasure, before a vacuum removes them. A"
        " flush, rewrite, vacuum or restore commits nothing later than a day after it was planned.",
    ] = 168
    job_retention_days: Annotated[Positive, "Days that finished jobs stay in the job log; then a vacuum removes them."] = 30
    audit_retention_days: Annotated[
        Natural, "Days that entries stay in the audit log; then a vacuum removes them. 0 keeps them all."
    ] = 365
    look_hours: Annotated[
        Positive,
        "Hours after which a scope is opened again although nothing is to do by what the state knows, so that commits of"
        " other programs are noticed.",
    ] = 168
    looks_per_run: Annotated[
        Natural, "The most scopes of a table that one run opens for that reason, the longest unseen first."
    ] = 1_000
    min_gain: Annotated[
        float, Meta(ge=0, le=1), "Share of the files that an optimize must save; a rewrite that saves less is skipped."
    ] = 0.25


class LockSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Annotated[
        Literal["objects", "process", "postgres"],
        "What prevents two drops or schema changes of one table at once: leases in the warehouse, this process, or advisory"
        " locks of the Postgres server that PGHOST and libpq's other variables name.",
    ] = "objects"
    lease_seconds: Annotated[
        Seconds, "Seconds without renewal after which a lock is taken over; renewed three times in that period."
    ] = 20.0
    acquire_seconds: Annotated[float, Meta(ge=0), "Seconds to wait for a lock before failing with CONFLICT."] = 480.0


class SqlSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    timeout_seconds: Annotated[Seconds, "Seconds that one query may take."] = 300.0
    memory_bytes: Annotated[int, Meta(ge=1 << 26), "Bytes that DuckDB may use for all queries of a process."] = 1 << 30
    threads: Annotated[Positive, "Threads that DuckDB uses for all queries of a process."] = 2
    workers: Annotated[
        Positive,
        "The most processes that run the queries of sessions other than the operator's, one at a time each, with memory_bytes"
        " and threads of its own. They start when they are needed.",
    ] = 4
    text_bytes: Annotated[Size, "Bytes that one SQL text of a session other than the operator's may have."] = 1 << 20
    text_tokens: Annotated[
        int, Meta(ge=100), "Words, values and signs that such a text may have; each takes some 20 microseconds to parse."
    ] = 100_000
    text_statements: Annotated[Positive, "Statements that such a text may have."] = 1000
    cache_bytes: Annotated[Natural, "Bytes of data file columns that a process caches for later queries; 0 caches none."] = (
        256 << 20
    )
    result_bytes: Annotated[Size, "Bytes of one result in memory; one that is written to a table may have more."] = 1 << 30
    subscription_rows: Annotated[
        Positive, "Rows that a subscription of a session other than the operator's may show at a time."
    ] = 100_000
    temporary_bytes: Annotated[Natural, "Bytes that the rows of a session's temporary tables may have."] = 256 << 20
    block_bytes: Annotated[Size, "Bytes that the rows between BEGIN and COMMIT may take in a session's memory."] = 64 << 20
    block_idle_seconds: Annotated[
        Seconds, "Seconds after which a block without a statement is dropped, and a connection in it closed."
    ] = 600.0


class FilesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_bytes: Annotated[Positive, "Bytes of one file of a FILE column."] = 25 << 20
    max_per_folder: Annotated[Positive, "Files of a scope in one subfolder of `_files/`; then the next one is started."] = 5000
    max_per_request: Annotated[Positive, "Files that one write, or one SQL text, may contain."] = 20
    allowed_mime: Annotated[tuple[str, ...], "MIME types that are accepted; `image/*` means all of a kind."] = ("*/*",)


class LoadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    in_process_bytes: Annotated[
        Natural, "Load files of fewer bytes than this together in the calling process, without Spark."
    ] = 256 << 20
    piece_bytes: Annotated[
        Size,
        "Bytes of a file that one task reads. Without partitions each task writes its own data files: larger pieces, fewer"
        " files.",
    ] = 128 << 20


class PipelinesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    batch_objects: Annotated[
        int, Meta(ge=1, le=100_000), "The most objects that an ingest takes in one commit: what a death makes it read again."
    ] = 1000
    batch_bytes: Annotated[Positive, "Bytes of the objects above which an ingest begins another commit."] = 4 << 30
    spark_objects: Annotated[
        int,
        Meta(ge=1, le=100_000),
        "From this many new objects on, an ingest has Spark's tasks read them, as many in one commit.",
    ] = 20_000
    spark_bytes: Annotated[Positive, "Bytes of new objects from which it does, where there are more objects than `workers`."] = (
        1 << 30
    )
    workers: Annotated[int, Meta(ge=1, le=64), "Processes of an ingest that read objects at the same time."] = 2
    object_memory_bytes: Annotated[
        int, Meta(ge=64 << 20), "Memory that the reading of one object may take; more makes it a reject."
    ] = 512 << 20
    object_seconds: Annotated[
        Seconds, "Seconds that the reading of an object may take, without the store's; more for large ones."
    ] = 120.0


class FederationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    min_bytes: Annotated[
        Natural, "Fan an eventual query on one table out over its partitions if it reads at least this many bytes."
    ] = 64 << 20
    part_bytes: Annotated[Positive, "Bytes of partitions that are computed together; a larger partition stays whole."] = 32 << 20
    in_process_below: Annotated[Natural, "Compute fewer such parts than this in the calling process, without Spark."] = 64


class JobsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_retries: Annotated[Natural, "How often a queued job is retried after a transient error."] = 3
    retry_backoff_ms: Annotated[Natural, "Milliseconds before the first retry; doubled for each further one."] = 100
    heartbeat_seconds: Annotated[Seconds, "How often a running job reports its progress and checks whether it was killed."] = 2.0
    lease_seconds: Annotated[
        Seconds, "A running job that has not reported for this long is taken over by the next `jobs run`."
    ] = 60.0


class SparkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    master: Annotated[str, "Spark master: local[cores,tries], spark://, k8s:// or yarn. local[N] alone retries nothing."] = (
        "local[2,4]"
    )
    driver_memory: Annotated[str, "Heap of the driver; in local mode, of driver and executors."] = "2g"
    task_bytes: Annotated[
        Positive, "Estimated bytes of scopes that are packed into one task; one that only reads takes four times that."
    ] = 16 << 20
    task_scopes: Annotated[Positive, "The most scopes that are packed into one task."] = 250
    executor_archive: Annotated[str | None, "URI of a packed environment for executors that lack the lakewarden wheel."] = None
    s3a: Annotated[
        bool,
        "Load Hadoop's connector for s3a:// (13 MB of JARs, from Maven Central), and use it for scopes on S3 that are too"
        " large for one task.",
    ] = False
    conf: Annotated[dict[str, str], "Further Spark settings, by Spark's names."] = {}


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    body_bytes: Annotated[Size, "Bytes that the body of one request may have."] = 16 << 20
    ingest_bytes: Annotated[Size, "Bytes of the rows, or of the parameters, that one call of Flight SQL may send."] = 256 << 20
    concurrent_per_user: Annotated[
        Positive, "Requests of one user that one server process runs at the same time; more are declined."
    ] = 64
    requests_per_minute: Annotated[
        Positive, "Requests of one user that one server process takes within a minute; more are declined."
    ] = 60_000
    refusals_per_minute: Annotated[
        Positive, "Wrong passwords of one user, or bad tokens from one address, within a minute; then all are declined."
    ] = 10
    subscriptions_per_user: Annotated[Positive, "Subscriptions of one user that one server process follows at the same time."] = (
        100
    )
    subscriptions: Annotated[Positive, "Subscriptions of all users that one server process follows at the same time."] = 1000
    heartbeat_seconds: Annotated[Seconds, "Seconds without an event after which a subscriber gets a sign of life."] = 15.0
    slow_seconds: Annotated[
        Seconds,
        "Seconds that a subscriber may take to read what was sent, and that a store may be away, before the subscription is"
        " ended.",
    ] = 30.0
    postgres_connections: Annotated[
        Positive, "Connections of PostgreSQL clients that one server process has at the same time."
    ] = 500
    scrape_token_file: Annotated[
        str,
        "A file with a token of 16 signs or more that shows each table's figures in /metrics, beside those of a dba: for"
        " Prometheus, as its credentials_file. Empty: none does.",
    ] = ""
    stop_seconds: Annotated[Positive, "Seconds that a server waits for the requests that it runs when it stops."] = 320


class PricesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    write_requests: Annotated[
        Price,
        "Dollars of a thousand requests that create, replace or list objects: what the figures of the fleet count with."
        " Requests that delete are free, and on a disk all are.",
    ] = 0.005
    read_requests: Annotated[Price, "Dollars of a thousand requests that read objects."] = 0.0004
    gb_month: Annotated[Price, "Dollars of a gigabyte (10^9 bytes) that is stored for a month."] = 0.023
    gb_read: Annotated[Price, "Dollars of a gigabyte that leaves the store; 0 for machines in the bucket's region."] = 0.0
