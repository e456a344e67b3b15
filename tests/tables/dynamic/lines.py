"""Each line of FLIP-188, in our words, and whether it is true: data for docs/reference/flip188.md.

The test of a line is named by it: `test_fl_031_…`, in this directory or in the room that it is about.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.lines import TESTS, Line, tests_of

FIRST, LAST = 1, 80

SECTIONS: dict[str, tuple[Line, ...]] = {
    "FL.A Tables, DDL, drop, describe": (
        Line(1, "CREATE makes the physical storage"),
        Line(2, "no option is needed"),
        Line(
            3,
            "CREATE of what exists fails, or with IF NOT EXISTS does nothing; a path with a table of no catalog is refused",
            reason="IF NOT EXISTS takes such a table over if its columns are the declared ones, and refuses it otherwise",
        ),
        Line(4, "the primary key includes all partition fields"),
        Line(5, "the primary key is more than the partition fields"),
        Line(
            6,
            "DROP removes the row of the catalog and the storage",
            "differs",
        ),
        Line(7, "DROP of a missing table fails; with IF EXISTS it does not"),
        Line(8, "DROP where the path is gone fails, and the table stays; with IF EXISTS it goes"),
        Line(9, "DROP TEMPORARY TABLE drops temporary tables alone"),
        Line(10, "names have one to three parts", reason="the catalog is `lakewarden`"),
        Line(11, "a temporary table is its session's own", reason="its rows are in memory, not on a storage, up to a bound"),
        Line(12, "DESCRIBE TABLE EXTENDED shows the options"),
        Line(13, "with PARTITION it shows the path, the time and the files of one partition"),
        Line(14, "without PARTITION it shows these of the whole table too"),
        Line(15, "a partition that is unknown or incomplete, or of a table without any, fails"),
        Line(
            16,
            "the watermark is that of the newest rows",
            "differs",
        ),
    ),
    "FL.B Options": (
        Line(17, "session options apply to tables created later"),
        Line(18, "an option of the table wins"),
        Line(19, "options are frozen at creation"),
        Line(
            20,
            "`log.system` is one of a list",
            "differs",
        ),
        Line(21, "kafka needs `log.kafka.bootstrap.servers`; any other `log.kafka.*` is passed on"),
        Line(22, "`log.retention` is a length of time"),
        Line(23, "`log.scan` is full, latest or from-timestamp, of the table alone"),
        Line(24, "`log.scan.timestamp-mills` is needed with from-timestamp, and refused without"),
        Line(25, "`log.consistency` is transactional or eventual"),
        Line(26, "`log.changelog-mode` is auto, upsert or all"),
        Line(27, "`log.key-format` is json", "differs"),
        Line(28, "`log.format` is debezium-json", "differs"),
        Line(
            29,
            "`file.path` is the root path",
            "differs",
        ),
        Line(30, "`file.format` is parquet; any other is refused", "differs"),
        Line(31, "`bucket` is a whole number from 1, and 1 by default", reason="at most 1,000"),
        Line(32, "`change-tracking` is true by default, of the table alone"),
        Line(33, "an unknown option is named, and a retired one says its new name"),
    ),
    "FL.C Buckets and parallelism": (
        Line(
            34,
            "a row's bucket is the hash of its key, or of the whole row, modulo the number",
            reason="files that Spark itself writes over `s3a://` for very large scopes have no bucket",
        ),
        Line(
            35,
            "a bucket has one parallel writer",
            reason="a bucket's rows are one file of a commit, and a rewrite puts files of one bucket together",
        ),
        Line(
            36,
            "a bucket is read by one reader by default",
            reason="a bucket above `spark.task_bytes` is divided; rows that wait in the log have a reader of their own",
        ),
        Line(37, "`SET table-storage.bucket = 10` applies to tables created later"),
        Line(38, "the number of buckets never changes"),
    ),
    "FL.D Streaming writes, change tracking, batch writes": (
        Line(
            39,
            "a streaming write without checkpoint is refused before any data is written",
            reason="what foreachBatch writes are batch writes: with `stream_id` and `batch_id`, each is written once",
        ),
        Line(
            40,
            "a table takes one streaming writer at a time",
            reason="renewed while the stream lives, given back at its end, free 60 s after its process died; one that lost it is"
            " refused at its next batch",
        ),
        Line(41, "a batch write works beside a streaming writer"),
        Line(
            42,
            "without change-tracking, writes leave no changes",
            reason="nothing is kept behind a flush; the log stays the way in, so a write costs the same",
        ),
        Line(
            43,
            "INSERT OVERWRITE replaces one partition, or those of the rows",
            reason="other partitions stay; a partition that is named and gets no row is emptied",
        ),
        Line(44, "INSERT OVERWRITE makes no changelog", reason="a stream goes on, and sees what is written later"),
        Line(45, "ALTER TABLE COMPACT rewrites files and returns when that is done"),
    ),
    "FL.E Concurrency and lock": (
        Line(46, "a command that finds a file gone fails and asks to retry"),
        Line(47, "a command loses against a stream of the same partition, and leaves nothing"),
        Line(48, "commands on other partitions succeed"),
        Line(49, "of two commits at once, each gets a version of its own"),
        Line(
            50,
            "an object store commits without rename",
            "differs",
        ),
        Line(51, "`run_with_lock` returns the value, passes errors on, and frees the lock; `close` may be called again"),
        Line(52, "holders never overlap; a dead one's lock ends; waiting ends too"),
        Line(
            53,
            "only a catalog that supports it gives the lock",
            "differs",
        ),
        Line(
            54,
            "sources and sinks get the factory from the catalog",
            "differs",
        ),
        Line(
            55,
            "options are enriched, then the storage is created, then the table shown; and dropped with it",
            "differs",
        ),
        Line(
            56,
            "a catalog without support refuses CREATE without connector",
            "differs",
        ),
    ),
    "FL.F Reading, log scan, changelog": (
        Line(57, "full reads a snapshot, then all later changes"),
        Line(58, "full works after the log's retention"),
        Line(59, "latest reads the changes after the start"),
        Line(60, "from-timestamp reads the changes from then on", reason="0 is all that is kept, a moment to come nothing yet"),
        Line(61, "transactional: rows are visible with their checkpoint", reason="at one position of the log for each batch"),
        Line(
            62,
            "eventual: rows are visible at once",
            reason="when a task of a stream has written them; a batch that runs again writes the same rows by the same keys",
        ),
        Line(63, "eventual needs a primary key"),
        Line(64, "auto means upsert with a key, and all without"),
        Line(
            65,
            "upsert: the reader rebuilds what rows were before",
            reason="from the log and the table, not from a state of its own",
        ),
        Line(
            66,
            "all: the log has what rows were before",
            reason="from the write on, in the log and its history; readers take it from there, and read nothing else",
        ),
        Line(67, "upsert needs a primary key"),
        Line(68, "a record's key is null without a primary key"),
        Line(69, "a record's key is JSON of the primary key"),
        Line(70, "a record's value is debezium-json"),
        Line(71, "duplicates of a writer end in the right state"),
        Line(
            72,
            "all needs transactional, and rows that are complete",
            "differs",
        ),
        Line(73, "without a log system, upsert, eventual and from-timestamp are refused, each in its words"),
        Line(74, "a batch read has the newest rows alone"),
    ),
    "FL.G Retention": (
        Line(75, "changes older than the retention go"),
        Line(76, "their rows stay"),
        Line(77, "from-timestamp older than what is kept fails, and names the earliest"),
        Line(78, "rows never expire by themselves"),
        Line(79, "ALTER TABLE DROP PARTITION removes a partition", reason="DELETE FROM works too"),
        Line(80, "what was not flushed never goes by retention"),
    ),
}


@dataclass(frozen=True)
class Difference:
    """What the seed says, what is here instead, and why."""

    lines: tuple[int, ...]
    seed: str
    here: str
    why: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        (20,),
        "the log is Kafka, and the default",
        "`log.system` is object, kafka or none, and object by default: the log is objects beside the table. With kafka, the"
        " changes of that log go to the table's topic by themselves, each once, wherever `lakewarden serve`, `ui` or Dagster run",
        "the log needs no broker, and what a write acknowledged is on the storage; a topic is as safe as its replicas",
    ),
    Difference(
        (6,),
        "DROP leaves nothing",
        "a fence stays in `_delta_log` for `maintenance.fence_retention_hours`. A table that is created there again is empty, and"
        " its first version is the one above the fence",
        "a writer that was late would bring the table back, with its rows",
    ),
    Difference(
        (29,),
        "`file.path` is any root path",
        "without it, the storage's template says where a table lies; one that is given is the root of a storage, and needs the"
        " right to manage storages",
        "a path of a user's choice could be that of another's table; storages have credentials, checks and an owner",
    ),
    Difference(
        (30,),
        "`file.format` names a format",
        "parquet; others are refused",
        "the file store is a Delta table, which every reader of Delta reads; its files are Parquet. The bucket is in their names"
        " (`b003-…`) and in the tags of commits, not in a directory",
    ),
    Difference(
        (27, 28),
        "`log.key-format` and `log.format` control the messages",
        "json and debezium-json, the defaults, are the only ones; others are refused",
        "each format is read back by `consume`, type by type, and these two are those that consumers have",
    ),
    Difference(
        (16,),
        "a watermark is defined in the schema",
        "the option `watermark` names a TIMESTAMP column; shown is its highest value, pending rows included",
        "SQL here has no WATERMARK clause, and no query waits for one",
    ),
    Difference(
        (50,),
        "HDFS commits by rename, object stores under a lock",
        "every store commits by conditional put, and none by rename, so no commit needs a lock; a store without conditional put"
        " is refused",
        "one way to commit, which S3, Azure, GCS and disks have",
    ),
    Difference(
        (53,),
        "Hive's catalog alone gives the lock",
        "there is one catalog, and it has the lock on every store, S3 and disk alike; none is in memory",
        "the warehouse itself is the catalog: there is no server that may be missing",
    ),
    Difference(
        (54,),
        "sources and sinks that need the lock implement an interface",
        "what needs the lock gets `warehouse.locks`, a factory that can be pickled",
        "there are no plug-ins: Spark's source is the one that there is",
    ),
    Difference(
        (55, 56),
        "a factory of managed tables is found where no connector is named; a catalog without support refuses CREATE",
        "CREATE enriches the options, begins the storage while the table is hidden, then shows it; DROP hides it, removes the"
        " storage, then the row. A type that is named wins over the session",
        "there are no connectors and one catalog, which supports dynamic tables",
    ),
    Difference(
        (72,),
        "with changelog-mode all, a query without UPDATE_BEFORE is refused in the first version; a later one completes it",
        "no write is refused for want of it: each takes the row before from the live ones, and an UPDATE the columns that it does"
        " not name",
        "that is the seed's later version",
    ),
)

LINES: tuple[Line, ...] = tuple(line for section in SECTIONS.values() for line in section)


def line_tests() -> dict[int, str]:
    """The names of the tests, by the line that names them."""
    return tests_of(TESTS, "fl")
