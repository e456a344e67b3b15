"""Each line of K3, in our words, and whether it is true: data for docs/reference/k3.md.

The test of a line is named by it: `test_k3_031_…` in this directory, or over HTTP in tests/serve/http.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lakewarden.serve.http.k3_calls import CALLS, snake
from tests.lines import TESTS, Line, tests_of

FIRST, LAST = 1, 125
_SERVED = TESTS / "serve" / "http"


SECTIONS: dict[str, tuple[Line, ...]] = {
    "K3.A Wire form": (
        Line(1, "an int64 is text in JSON"),
        Line(2, "fields are in camelCase"),
        Line(3, "an enum is its full name"),
        Line(4, "a request's int64 is text or a number; anything else is an error that names the field"),
        Line(5, "an unknown enum is an error that lists the legal names"),
        Line(6, "an int32 is a number"),
        Line(7, "times are milliseconds since the epoch, as text"),
        Line(8, "every field is there, empty or not"),
    ),
    "K3.B Engine": (
        Line(9, "a new bucket has an engine at once"),
        Line(10, "an engine is shown with all of its fields"),
        Line(11, "enabling a bucket's engine again keeps it; there are never two"),
        Line(12, "calls name the bucket and no engine; an unknown bucket is NOT_FOUND"),
        Line(13, "a new engine is active"),
        Line(14, "only DisableEngine and EnableEngine switch it, and its time advances"),
        Line(15, "a disabled engine refuses calls of tables; sensors and schedules skip; nothing is deleted"),
        Line(16, "settings are the text of a JSON object, kept as it is"),
        Line(17, "the number of tables follows them"),
    ),
    "K3.C Table": (
        Line(18, "a table is shown with all of its fields"),
        Line(19, "a manual table begins at version 0 and has no pipeline and no rule"),
        Line(20, "a manual table without columns is refused"),
        Line(21, "a name is taken once, and a column's too"),
        Line(22, "a pipeline table has no columns yet, and takes none"),
        Line(23, "its first object makes its schema; later ones fit it, or add columns"),
        Line(24, "a pipeline table names its pipeline, a manual one none"),
        Line(25, "a pipeline table gets one rule, by the extensions of its template"),
        Line(26, "a query before the first object is FAILED_PRECONDITION"),
        Line(27, "merge keys are a composite key; a nullable, unknown or JSON column is none"),
        Line(28, "a condition on the merge keys goes through the log, any other straight into Delta"),
        Line(29, "partition columns become directories; unknown, JSON and float columns are refused"),
        Line(30, "a condition on the partition column reads the files of that partition only"),
        Line(31, "a keyed write that changes the partition column moves the row"),
        Line(32, "each commit advances the version, and an optimize with nothing to do makes none"),
        Line(33, "row count and size are those of the last drain"),
        Line(34, "a description is stored and shown"),
    ),
    "K3.D Columns, types, defaults": (
        Line(35, "the column types have K3's numbers"),
        Line(36, "a column without a type is refused"),
        Line(37, "strings are UTF-8; empty is not NULL"),
        Line(38, "INT has 32 bits, and nothing wraps"),
        Line(39, "LONG has 64 bits, exact as text"),
        Line(40, "SHORT has 16 bits"),
        Line(41, "FLOAT has 32 bits; NaN and infinity are refused"),
        Line(42, "DOUBLE has 64 bits; NaN and infinity are refused"),
        Line(43, "BOOLEAN is true or false"),
        Line(44, "DATE is a day that exists"),
        Line(45, "TIMESTAMP is microseconds in UTC, or text; less than a microsecond is refused"),
        Line(46, "BINARY is base64"),
        Line(47, "JSON is any document, a string too; a broken object or list is refused"),
        Line(48, "DuckDB's JSON operators work on JSON columns"),
        Line(49, "a default fills what a row leaves out, at the write"),
        Line(50, "defaults differ by row, and stay as they were written"),
        Line(51, "a default is checked against its column's type"),
        Line(52, "a default is a known function or a literal"),
        Line(53, "a required column without a default cannot be left out"),
        Line(54, "a nullable column that is left out is NULL"),
        Line(55, "NULL is not absence: no default takes its place"),
        Line(56, "an unknown column in a row is an error that names it"),
    ),
    "K3.E Two tiers and the read side": (
        Line(57, "a keyed write is in the write log, and not in Delta"),
        Line(58, "a drain is one commit, and empties the log"),
        Line(59, "maintenance works on Delta alone; pending rows stay"),
        Line(60, "freshness that is not given is EVENTUAL"),
        Line(61, "EVENTUAL is Delta alone"),
        Line(62, "STRONG reads what was written"),
        Line(63, "OLTP_ONLY is the undrained rows of the log"),
        Line(64, "STRONG hides deleted rows and has one row for each key"),
        Line(65, "STRONG has each row once while a drain commits"),
        Line(66, "the enums of reading have K3's numbers"),
        Line(67, "EVENTUAL on an ordinary table: UNARY_WAREHOUSE, WAREHOUSE"),
        Line(68, "STRONG: UNARY_MERGED_STRONG, MERGED, also on partitioned tables"),
        Line(69, "OLTP_ONLY: OLTP, without a strategy, with a reason"),
        Line(70, "an aggregate over a large partitioned table is fanned out"),
        Line(71, "a scan of a large partitioned table is fanned out"),
        Line(72, "a small table is not fanned out, and the answer says why"),
        Line(73, "each read says its strategy and tier; a reason only where there is one"),
        Line(74, "STRONG works on a table without keys"),
        Line(75, "a write ignores the freshness"),
        Line(76, "one statement a call, a limit, `{table}` and tables to look up"),
    ),
    "K3.F Write strategies": (
        Line(77, "KEYED_INSERT_SINGLE"),
        Line(78, "KEYED_INSERT_BULK; of the call always"),
        Line(79, "KEYED_INSERT_FROM_SELECT"),
        Line(80, "KEYED_UPDATE"),
        Line(81, "KEYED_RANGE; without a key it does nothing, and says so"),
        Line(82, "KEYED_FROM_SUBQUERY"),
        Line(83, "KEYED_DELETE"),
        Line(84, "KEYED_RANGE_DELETE"),
        Line(85, "KEYED_DELETE_FROM_SUBQUERY"),
        Line(86, "NON_KEYED_UPDATE: a commit, with a warning"),
        Line(87, "NON_KEYED_DELETE: a commit, with a warning"),
        Line(88, "NON_KEYED_INSERT: a commit"),
        Line(89, "NON_KEYED_INSERT_FROM_SELECT"),
        Line(90, "MERGE_ROWS: rows written are the source's"),
        Line(91, "MERGE_QUERY"),
        Line(92, "MERGE_TABLE"),
        Line(93, "the strategies have K3's numbers"),
        Line(94, "a condition on another column beside the keys is not keyed"),
        Line(95, "a condition on a part of the keys is a range, with a warning"),
        Line(96, "a pending row replaces what a direct write did, which was warned of"),
        Line(97, "after a Compact, a direct write stays"),
        Line(98, "a drain needs no call of the writer", reason="by FLUSH_POLICY `rows:1`, which the flush sensor looks at"),
        Line(99, "of one key the last write counts"),
        Line(100, "overwrite replaces all rows by one commit, behind a drain; the actions of Merge"),
        Line(101, "tables are defined by SQL, several columns added at once; DROP and RENAME COLUMN are refused"),
    ),
    "K3.G History and time travel": (
        Line(102, "an entry has all of its fields"),
        Line(103, "one entry a commit, without gaps; a vacuum has two"),
        Line(104, "operations have Delta's names"),
        Line(105, "a predicate is shown as it was written"),
        Line(106, "an entry names the version that it read; the first names 0"),
        Line(107, "pages go back by `before_version`, and list each version once"),
        Line(108, "entries are in the order of versions, whatever their times"),
        Line(109, "metrics have K3's names"),
        Line(110, "user metadata is an object, and what the caller attached alone; other text is under `raw`"),
        Line(111, "a restore is a new version, to the rows of now too; an unknown or vacuumed one is refused"),
        Line(112, "a restore drains first, and the restored rows stay"),
        Line(113, "DescribeTable says the last drain and the lag, ListPartitions the files of each"),
    ),
    "K3.H Maintenance parameters": (
        Line(114, "Optimize packs each partition to the size, and counts what it did"),
        Line(115, "Optimize by columns sorts; partition columns and unknown ones are refused"),
        Line(116, "Vacuum keeps 168 hours unless forced; a dry run deletes nothing"),
        Line(117, "Compact drains the log; an empty one makes no commit"),
        Line(118, "two operations at once harm no row"),
    ),
    "K3.I Pipelines and triggers": (
        Line(119, "an uploaded object that the rule takes is in the table after the next ingest"),
        Line(120, "one that it does not take starts nothing"),
        Line(121, "source sync takes objects that are discovered in another place (Preview)"),
        Line(122, "TriggerIngest takes one object whatever the rule and the ledger say"),
        Line(123, "the rule is listed, shown and edited, and the edited one counts"),
        Line(124, "the same object counts once by its ETag; a new version replaces its rows"),
        Line(125, "the pipeline and its rule outlive the table; excludes win, globs ignore the case of ASCII letters"),
    ),
}


@dataclass(frozen=True)
class Difference:
    """What the seed says, what is here instead, and why; the test shows what is here."""

    says: str
    here: str
    why: str
    test: str


DIFFERENCES = (
    Difference(
        "gRPC and HTTP",
        "HTTP and Python, with the names and forms of the seed's HTTP",
        "what gRPC would add is another encoding of the same calls; a client is generated from the OpenAPI document",
        "test_the_calls_are_those_of_http_and_python",
    ),
    Difference(
        "tables lie in the bucket",
        "a bucket is a namespace: a table lies where its storage's template says, `data/<bucket>/<table>` by default",
        "one warehouse has many buckets on several stores, and other Delta readers find each table by its path",
        "test_a_table_lies_by_its_storages_template",
    ),
    Difference(
        "the write log is inside the bucket",
        "a log of objects of each table's own, in the warehouse's state, `_lakewarden/log/<log id>/`",
        "nothing but the store is needed, no broker; an erasure, a repair and a restore see one place for all tables",
        "test_the_log_is_of_objects_in_the_state",
    ),
    Difference(
        "a compactor drains the log",
        "the flush sensor of `lakewarden ui`, by FLUSH_POLICY `rows:1`, or `compact`",
        "Dagster decides when, and shows each drain",
        "test_k3_098_a_drain_needs_no_call_of_the_writer",
    ),
    Difference(
        "Delta names files (`part-…`)",
        "`batch-<n>-<id>.parquet` from a drain, `compact-<id>.parquet` from maintenance, in the directories of the partitions",
        "which commit a file is of is seen without its log, as the warehouse's own page says",
        "test_files_have_names_of_their_own",
    ),
    Difference(
        "a table that was deleted is gone",
        "its rows and files are; its place keeps a fence, a `_delta_log` without rows, until a vacuum a week later",
        "a writer that slept through the drop fails there, and brings nothing back",
        "test_a_fence_stays_behind_a_drop",
    ),
    Difference(
        "a default is applied at the row's commit",
        "when the write is acknowledged, which is before its commit",
        "a STRONG read and the commit behind it then have the same value",
        "test_k3_050_defaults_differ_by_row_and_stay",
    ),
    Difference(
        "predicates match the merge keys, or are not keyed",
        "those on some of the keys alone are a keyed range, with a warning",
        "the keys are read, then written one by one: it is exact, and beats what waits in the log",
        "test_k3_095_a_part_of_the_key_is_a_range_with_a_warning",
    ),
    Difference(
        "int64 is text in JSON",
        "of messages always; of rows beyond 2^53 alone, below they are numbers; a request may send both",
        "rows are JSON's own values, as the seed's answers show them",
        "test_k3_039_long_is_exact_as_text",
    ),
    Difference(
        "TIMESTAMP is microseconds",
        "taken as microseconds or as text, answered as ISO 8601 in UTC",
        "as through all doors here, and a reader need not know the column's type",
        "test_k3_045_timestamps_are_microseconds",
    ),
    Difference(
        "JSON is any document",
        "a string too; one that begins with `{` or `[` is the document that it writes, refused where it is broken",
        "clients send documents as text too, and a broken one is not to become a string",
        "test_k3_047_a_string_is_a_json_string",
    ),
    Difference(
        "user_metadata is `commitInfo.userMetadata`",
        "K3's history shows it alone; in Delta's log it is under `metadata`, beside what the commit says of itself",
        "the job, the range of rows and the user of a commit stand there for repairs and restores",
        "test_k3_110_user_metadata_is_what_the_caller_attached_and_nothing_else",
    ),
    Difference(
        "an entry for each write",
        "for each commit: a drain is one of many keyed writes, with their metadata merged in order",
        "a commit for each write would make as many small files",
        "test_k3_058_a_drain_is_one_commit_and_empties_the_log",
    ),
)

LINES: tuple[Line, ...] = tuple(line for section in SECTIONS.values() for line in section)


def line_tests() -> dict[int, str]:
    """The names of the tests, by the line that names them. The wire form is that of HTTP."""
    return {**tests_of(Path(__file__).parent, "k3"), **tests_of(_SERVED / "test_k3_wire.py", "k3")}


def call_tests() -> dict[str, list[str]]:
    """The tests of each call over HTTP, by its name: `test_k3_080_update_…`."""
    texts = (_SERVED / "test_k3_calls.py").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for name in re.findall(r"^def (test_k3_\d{3}_\w+)\(", texts, re.MULTILINE):
        called = max((call for call in CALLS if name[12:].startswith(f"{snake(call)}_")), key=len)
        found.setdefault(called, []).append(name)
    return found
