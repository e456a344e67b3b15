"""Tests that others have published, each with our counterpart: data for docs/reference/published-tests.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.lines import TESTS


@dataclass(frozen=True)
class Published:
    theirs: str
    """Names of tests, apart by spaces."""
    ours: str = ""
    """The tests that stand for them, apart by spaces, as `file::test`, both without `test_`."""
    reason: str = ""
    """Why none does, or how ours differ."""


@dataclass(frozen=True)
class Suite:
    title: str
    rows: Sequence[Published]


_API = "about Spark's classes, not about a source"
_WORKER = "about Spark's own workers, logs and profilers"
_TIME_ONLY = "retention is by time alone: no number of versions is kept or dropped"
_NO_ENGINES = "there are no merge engines: rows are complete, and a later insert replaces"

SPARK = (
    Suite(
        "Spark 4.1, `test_python_datasource.py`",
        (
            Published(
                "test_basic_data_source_class test_basic_data_source_reader_class test_data_source_type_mismatch", reason=_API
            ),
            Published("test_data_source_register", "session::an_error_names_its_code", "a session registers another warehouse"),
            Published(
                "test_data_source_read_output_tuple test_data_source_read_output_list test_data_source_read_output_row"
                " test_data_source_read_output_named_row test_data_source_read_output_named_row_with_wrong_schema"
                " test_data_source_read_output_none test_read_with_invalid_return_row_type",
                reason="the source returns Arrow alone",
            ),
            Published("test_data_source_read_output_empty_iter", "batch_read::a_scope_without_rows_is_empty"),
            Published(
                "test_data_source_read_cast_output_schema test_arrow_batch_data_source test_decimal_round",
                "session::every_type_reads_as_lakewarden_reads_it",
            ),
            Published(
                "test_data_source_read_output_with_partition test_in_memory_data_source",
                "batch_read::scopes_are_packed_by_what_the_state_knows batch_read::a_shared_table_is_divided_by_its_files",
            ),
            Published(
                "test_data_source_read_output_with_schema_mismatch",
                "session::a_query_names_its_columns batch_read::a_version_has_the_columns_that_it_had",
            ),
            Published(
                "test_filter_pushdown test_filter_type test_unsupported_filter",
                "filters::pushed_filters_change_no_result batch_read::a_filter_passes_files_over",
            ),
            Published(
                "test_filter_value_type test_filter_nested_column", "filters::a_filter_that_is_not_understood_says_nothing"
            ),
            Published("test_filter_pushdown_disabled", "session::every_type_reads_as_lakewarden_reads_it"),
            Published(
                "test_extraneous_filter test_filter_pushdown_error", reason="the source returns each filter that it is given"
            ),
            Published("test_custom_json_data_source_read", "batch_read::a_merged_read_equals_an_oracle"),
            Published(
                "test_custom_json_data_source_write test_custom_json_data_source_commit test_arrow_batch_sink",
                "write::a_job_of_many_users_and_tasks_has_one_position session::a_frame_is_written_at_once_or_not_at_all",
            ),
            Published(
                "test_custom_json_data_source_abort",
                "write::an_aborted_job_leaves_nothing write::a_bad_row_fails_its_task_with_the_code",
            ),
            Published("test_case_insensitive_dict", "session::a_query_names_its_columns", "an option in capitals"),
            Published(
                "test_data_source_segfault test_data_source_reader_with_logging test_data_source_reader_pushdown_with_logging"
                " test_data_source_writer_with_logging test_data_source_perf_profiler test_data_source_memory_profiler"
                " test_data_source_read_with_udf_perf_profiler",
                reason=_WORKER,
            ),
        ),
    ),
    Suite(
        "Spark 4.1, `test_python_streaming_datasource.py`",
        (
            Published("test_basic_streaming_data_source_class test_basic_data_source_stream_reader_class", reason=_API),
            Published(
                "test_stream_reader",
                "stream_read::full_then_changes_each_once_through_restarts stream_read::max_rows_bounds_a_batch",
                "batches follow one another without gap or overlap",
            ),
            Published("test_stream_reader_pyarrow", "stream_read::a_query_goes_on_from_its_checkpoint"),
            Published("test_simple_stream_reader", reason="the simple reader has no tasks and is not used"),
            Published(
                "test_stream_writer test_stream_arrow_writer",
                "session::a_query_that_starts_again_writes_each_row_once"
                " write::a_batch_of_a_stream_is_there_once_wherever_its_query_is_killed write::an_aborted_job_leaves_nothing",
            ),
        ),
    ),
)

TABLE_STORE = (
    Suite(
        "table-store 0.1, `CreateTableITCase`, `DropTableITCase`, `TableStoreFactoryTest`",
        (
            Published(
                "testCreateTable testOnCreateTable",
                "fl_a_ddl::fl_001_create_makes_the_storage fl_a_ddl::fl_003_create_of_what_is_there",
            ),
            Published(
                "testDropTable testOnDropTable",
                "fl_a_ddl::fl_006_drop_removes_everything fl_a_ddl::fl_007_drop_of_a_missing_table"
                " fl_a_ddl::fl_008_drop_where_the_path_is_gone",
            ),
            Published(
                "testEnrichOptions",
                "fl_b_options::fl_017_session_options_apply_to_new_tables fl_b_options::fl_018_the_tables_own_option_wins",
            ),
            Published("testFilterLogStoreOptions", "fl_b_options::fl_021_kafka_needs_its_servers"),
            Published("testBuildTableStore", reason="there are no connectors: a table of the catalog is read as such"),
        ),
    ),
    Suite(
        "table-store 0.1, `ReadWriteTableITCase`, `CompositePkAndMultiPartitionedTableITCase`, `FileStoreITCase`",
        (
            Published(
                "testBatchWriteWithPartitionedRecordsWithPk testBatchWriteWithPartitionedRecordsWithoutPk"
                " testBatchWriteWithNonPartitionedRecordsWithPk testBatchWriteNonPartitionedRecordsWithoutPk"
                " testBatchWriteMultiPartitionedRecordsWithOnePk testBatchWriteMultiPartitionedRecordsWithoutPk"
                " testBatchWriteWithMultiPartitionedRecordsWithMultiPk testBatchWriteWithNonPartitionedRecordsWithMultiPk"
                " testBatchWriteWithSinglePartitionedRecordsWithMultiPk testPartitioned testNonPartitioned testPartitionedNonKey",
                "shapes::what_is_written_is_read shapes::an_overwrite_replaces_the_partitions_of_its_rows_or_the_table",
            ),
            Published("testKeyedProjection testNonKeyedProjection", "shapes::what_is_written_is_read"),
            Published(
                "testOverwrite",
                "shapes::an_overwrite_replaces_the_partitions_of_its_rows_or_the_table"
                " fl_d_batch::fl_043_overwrite_of_partitions",
            ),
            Published(
                "testEnableLogAndStreamingReadWritePartitionedRecordsWithPk"
                " testDisableLogAndStreamingReadWritePartitionedRecordsWithPk testStreamingReadWritePartitionedRecordsWithoutPk"
                " testStreamingReadWriteNonPartitionedRecordsWithPk testStreamingReadWriteNonPartitionedRecordsWithoutPk"
                " testEnableLogAndStreamingReadWriteMultiPartitionedRecordsWithMultiPk"
                " testEnableLogAndStreamingReadWriteMultiPartitionedRecordsWithoutPk"
                " testEnableLogAndStreamingReadWriteSinglePartitionedRecordsWithMultiPk testContinuous testContinuousWithoutPK",
                "shapes::a_stream_begins_where_it_is_told_and_has_each_later_change",
                "`full`; with and without a log system it is the same log",
            ),
            Published(
                "testReadLatestChangelogOfPartitionedRecordsWithPk testReadLatestChangelogOfPartitionedRecordsWithoutPk"
                " testReadLatestChangelogOfNonPartitionedRecordsWithPk testReadLatestChangelogOfNonPartitionedRecordsWithoutPk"
                " testReadLatestChangelogOfInsertOnlyRecords testReadLatestChangelogOfMultiPartitionedRecordsWithMultiPk"
                " testReadLatestChangelogOfMultiPartitionedRecordsWithOnePk"
                " testReadLatestChangelogOfMultiPartitionedRecordsWithoutPk"
                " testReadLatestChangelogOfNonPartitionedRecordsWithMultiPk"
                " testReadLatestChangelogOfSinglePartitionedRecordsWithMultiPk",
                "shapes::a_stream_begins_where_it_is_told_and_has_each_later_change",
                "`latest`",
            ),
            Published(
                "testReadInsertOnlyChangelogFromTimestamp testReadRetractChangelogFromTimestamp",
                "shapes::a_stream_begins_where_it_is_told_and_has_each_later_change"
                " fl_f_reading::fl_060_from_timestamp_reads_all_that_is_kept_or_nothing_yet",
                "a table without a key has no times, and refuses",
            ),
            Published("testIn testLike testUnsupportedPredicate", "shapes::a_condition_of_any_kind_has_its_rows"),
            Published("testSuccessiveWriteAndRead", "shapes::writes_and_reads_take_turns"),
            Published("testQueryContainsDefaultFieldName", "shapes::columns_may_have_the_names_of_files_and_buckets"),
            Published("testChangeBucketNumber", "fl_c_buckets::fl_038_the_number_of_buckets_never_changes"),
            Published(
                "testSinkParallelism", "fl_d_batch::fl_035_a_rewrite_keeps_a_bucket_by_itself", "a bucket of a commit is one file"
            ),
            Published("testSourceParallelism", "batch_read::fl_036_a_bucket_is_read_by_one_reader"),
        ),
    ),
    Suite(
        "table-store 0.1, `ContinuousFileStoreITCase`",
        (
            Published(
                "testWithoutPrimaryKey testWithPrimaryKey testContinuousLatest",
                "shapes::a_stream_begins_where_it_is_told_and_has_each_later_change",
            ),
            Published(
                "testProjectionWithoutPrimaryKey testProjectionWithPrimaryKey",
                reason="Spark 4.1 tells a Python source no projection",
            ),
            Published("testIgnoreOverwrite", "fl_d_batch::fl_044_overwrite_makes_no_changelog"),
            Published(
                "testUnsupportedUpsert testUnsupportedEventual testUnsupportedStartupTimestamp",
                "fl_b_options::fl_073_without_a_log_system",
            ),
        ),
    ),
    Suite(
        "table-store 0.1, `StoreSinkTest`, `LogStoreSinkITCase`, `GlobalCommitterOperatorTest`,"
        " `LogStoreE2eTest`, `StreamingWarehouseITCase`",
        (
            Published(
                "testChangelogs testNoKeyChangelogs testAppend",
                "shapes::a_stream_begins_where_it_is_told_and_has_each_later_change",
            ),
            Published("testOverwrite testOverwritePartition", "fl_d_batch::fl_043_overwrite_of_partitions"),
            Published(
                "testStreamingPartitioned testStreamingNonPartitioned testStreamingPartitionedNonKey testWithPk",
                "chain::each_change_goes_through_the_whole_chain_once"
                " write::fl_061_transactional_rows_are_visible_with_their_checkpoint",
            ),
            Published("testStreamingEventual", "write::fl_062_eventual_rows_are_visible_at_once_and_end_right"),
            Published("testBatchPartitioned testBatchPartitionedNonKey", "shapes::what_is_written_is_read"),
            Published(
                "closeCommitter commitMultipleStagesTogether endOfInput filterRecoveredCommittables restoredFromMergedState",
                "write::a_batch_of_a_stream_is_there_once_wherever_its_query_is_killed"
                " write::a_retried_task_and_a_repeated_commit_double_nothing",
            ),
            Published("testUserStory", "example::the_example_carries_readings_from_a_stream_to_a_topic"),
        ),
    ),
    Suite(
        "table-store 0.1, `FileStoreCommitTest`, `FileStoreExpireTest`, `FileStoreScanTest`, `FileStoreReadTest`",
        (
            Published(
                "testSingleCommitUser testManyCommitUsersNoConflict", "fl_e_lock::fl_049_two_appends_at_once_get_a_version_each"
            ),
            Published("testOverwritePartialCommit", "fl_d_batch::fl_047_nothing_stays_of_it_and_the_stream_goes_on"),
            Published("testSnapshotAddLogOffset", "fl_f_reading::fl_057_full_reads_a_snapshot_then_each_later_change_once"),
            Published("testFilterCommittedAfterExpire", "write::a_batch_that_was_flushed_and_left_the_log_is_not_written_again"),
            Published("testLatestHint", reason="versions are listed, and no hint is kept"),
            Published("testNoSnapshot testNotEnoughSnapshots testNumRetainedMin testExpireWithNumber", reason=_TIME_ONLY),
            Published("testNeverExpire", "fl_g_retention::fl_078_no_maintenance_removes_rows"),
            Published(
                "testExpireWithTime",
                "fl_g_retention::fl_075_changes_older_than_the_retention_go fl_g_retention::fl_076_their_rows_stay",
            ),
            Published(
                "testWithPartitionFilter testWithKeyFilter testWithValueFilter", "filters::pushed_filters_change_no_result"
            ),
            Published("testWithBucket", "bucket_pruning::a_key_is_looked_for_in_its_bucket_alone"),
            Published("testWithSnapshot", "batch_read::a_version_has_the_columns_that_it_had"),
            Published("testWithManifestList", reason="there are no manifests: a version is a commit of Delta"),
            Published("testKeyProjection testValueProjection", "shapes::what_is_written_is_read"),
        ),
    ),
    Suite(
        "table-store 0.1, `KafkaLogITCase`, `KafkaLogSerializationTest`",
        (
            Published("testDropEmpty", "fl_kafka::fl_020_a_topic_comes_and_goes_with_its_table"),
            Published(
                "testUpsertTransactionKeyed testUpsertEventualKeyed testAllTransactionKeyed testAllEventualKeyed",
                "envelope::upsert_has_the_row_after_and_the_key_of_what_is_gone relay::the_mode_all_has_the_rows_before"
                " write::fl_062_eventual_rows_are_visible_at_once_and_end_right",
                "a relay always commits by transactions; `eventual` is about streams into the table",
            ),
            Published(
                "testAllTransactionNonKeyed testAllEventualNonKeyed", "relay::a_table_without_a_key_has_messages_without_one"
            ),
            Published(
                "testUpsertTransactionNonKeyed testUpsertEventualNonKeyed testNonKeyedUpsert",
                "fl_b_options::fl_067_upsert_needs_a_key",
            ),
            Published(
                "testKeyed testNonKeyed",
                "fl_kafka::fl_070_values_are_debezium_json fl_kafka::fl_069_the_key_is_json_and_decides_the_partition"
                " fl_kafka::fl_068_without_a_key_messages_have_none",
            ),
        ),
    ),
    Suite(
        "table-store 0.1, `ComputedColumnAndWatermarkTableITCase`, `PartialUpdateITCase`",
        (
            Published(
                "testBatchSelectWithWatermark testStreamingSelectWithWatermark", "fl_a_ddl::fl_016_watermark_of_the_newest_rows"
            ),
            Published("testBatchSelectComputedColumn testStreamingSelectComputedColumn", reason="there are no computed columns"),
            Published("testMergeInMemory testMergeRead testMergeCompaction testStreamingRead", reason=_NO_ENGINES),
        ),
    ),
)

PAIMON = (
    Suite(
        "Paimon 2026-08, `ChangelogModeTest`, `SchemaValidationTest`, `CatalogTableITCase.testConflictOption`",
        (
            Published("testDefault", "fl_f_reading::fl_064_auto_means_upsert_with_a_key_and_all_without"),
            Published("testInputChangelogProducer testLookupChangelogProducer", "fl_b_options::fl_026_changelog_mode"),
            Published(
                "testKeyOnlyDeletesEnabled testKeyOnlyDeletesIgnoredWithInputChangelogProducer",
                "envelope::upsert_has_the_row_after_and_the_key_of_what_is_gone relay::the_mode_all_has_the_rows_before",
            ),
            Published("testNullablePrimaryKey testNullablePrimaryKeyRequiresPrimaryKeyTable", "shapes::a_key_is_never_null"),
            Published(
                "testConflictOption",
                "fl_b_options::fl_067_upsert_needs_a_key fl_b_options::fl_019_options_are_frozen_at_creation",
            ),
            Published(
                "testOnlyTimestampMillis testOnlyTimestamp testFromTimestampConflict",
                "fl_b_options::fl_024_timestamp_of_the_scan",
            ),
            Published("testFromSnapshotConflict testLatestDeltaOnlyAcceptsScanMode", reason="`log.scan` has no such modes"),
        ),
    ),
    Suite(
        "Paimon 2026-08, `ContinuousFileStoreITCase`, `FullStartingScannerTest`, `ContinuousLatestStartingScannerTest`,"
        " `ContinuousFromTimestampStartingScannerTest`",
        (
            Published(
                "testWithPrimaryKey testWithoutPrimaryKey testContinuousLatest testScan",
                "shapes::a_stream_begins_where_it_is_told_and_has_each_later_change",
            ),
            Published(
                "testContinuousLatestStartingFromEmpty testNoSnapshot",
                "shapes::a_stream_begins_where_it_is_told_and_has_each_later_change",
            ),
            Published(
                "testContinuousFromTimestamp testScanFromChangelog testNoSnapshotBeforeTimestamp",
                "fl_f_reading::fl_060_from_timestamp_reads_all_that_is_kept_or_nothing_yet"
                " fl_g_retention::fl_077_a_timestamp_before_what_is_kept_names_the_earliest",
            ),
            Published("testConfigureStartupTimestamp testLackStartupTimestamp", "fl_b_options::fl_024_timestamp_of_the_scan"),
            Published("testIgnoreOverwrite", "fl_d_batch::fl_044_overwrite_makes_no_changelog"),
            Published("testScanFromOldSchema", "feed::changes_have_the_newest_columns"),
            Published("testConsumerId", "stream_read::a_query_goes_on_from_its_checkpoint", "the place is in Spark's checkpoint"),
            Published(
                "testConfigureStartupSnapshot testConfigureStartupSnapshotFull",
                "feed::it_starts_at_the_end_at_a_time_or_at_a_seq",
                "a place in the changes is a `_seq`, no version",
            ),
            Published(
                "testProjectionWithPrimaryKey testProjectionWithoutPrimaryKey testSourceReuseWithScanPushDown",
                reason="Spark 4.1 tells a Python source no projection",
            ),
            Published("testIgnoreDelete testAvroRetractNotNullField", reason=_NO_ENGINES),
            Published(
                "testConsumerIdInBatch testFlinkMemoryPool testSnapshotWatermark testDynamicPartitionPruningNotWork",
                reason="about Flink's own settings and operators",
            ),
        ),
    ),
    Suite(
        "Paimon 2026-08, `ReadWriteTableITCase`, `OverwriteTableTest`, `DynamicBucketTableITCase.testOverwrite`",
        (
            Published(
                "testDynamicOverwrite testOverwritePrimaryKey testOverwriteAppend testOverwriteMultiplePartitions testOverwrite",
                "shapes::an_overwrite_replaces_the_partitions_of_its_rows_or_the_table"
                " shapes::partitions_are_named_by_all_their_columns_or_by_some",
            ),
            Published(
                "testPurgePartitionUsingBatchOverWrite testPurgeTableUsingBatchOverWrite",
                "shapes::partitions_are_named_by_all_their_columns_or_by_some"
                " shapes::an_overwrite_replaces_the_partitions_of_its_rows_or_the_table",
                "where some partition columns are named, DROP PARTITION purges: an overwrite without rows changes nothing there",
            ),
            Published("testStreamingInsertOverwrite", "write::only_appends_are_taken"),
            Published(
                "testStreamingReadOverwriteWithPartitionedRecords testStreamingReadOverwriteWithoutPartitionedRecords"
                " testStreamingReadOverwriteWithDeleteRecords testUnsupportStreamingReadOverwriteWithoutPk",
                "fl_d_batch::fl_044_overwrite_makes_no_changelog",
                "streams hear nothing of an overwrite; no option changes that",
            ),
            Published(
                "testUpdateWithPrimaryKey testDeleteWithPrimaryKey testDeleteWithPrimaryKeyFilter"
                " testDeletePushDownWithPartitionKey",
                "shapes::rows_are_updated_and_deleted_by_any_condition",
            ),
            Published(
                "testUpdateWithoutPrimaryKey testDeleteWithoutPrimaryKey",
                "shapes::rows_are_updated_and_deleted_by_any_condition",
                "Paimon refuses; here it works, and ends streams",
            ),
        ),
    ),
    Suite(
        "Paimon 2026-08, `BucketSelectorTest`, `BucketFilterScanTest`, `ScanBucketITCase`, `FixedBucketRowKeyExtractorTest`,"
        " `RescaleBucketITCase`",
        (
            Published(
                "testEqualPredicate testEqualAndRangePredicate testEqualAndInWithOverlap testInAndInWithOverlap"
                " testRedundantEquals testContradictoryEquals testRangeOnlyFallsBackToFullScan testMultiFieldBucketKey"
                " testMultiFieldWithIntersection",
                "bucket_pruning::buckets_that_a_condition_leaves",
            ),
            Published(
                "testPartitionedTableWithBucketFilter testBucketFilterWithCompoundPredicateOnPkTable"
                " testCompositeBucketFilterWithCompoundPredicateOnPkTable testBucketFilterWithCompoundPredicateOnAppendTable"
                " testCompositeBucketFilterWithCompoundPredicateOnAppendTable",
                "bucket_pruning::a_key_is_looked_for_in_its_bucket_alone",
                "without a key the bucket is that of the whole row, so no condition names it",
            ),
            Published(
                "testScanBucketFilter",
                "batch_read::fl_036_a_bucket_is_read_by_one_reader",
                "a bucket is a task; no option asks for one",
            ),
            Published(
                "testBucket testUnCompactDecimalAndTimestampNullValueBucketNumber",
                "buckets::golden_buckets buckets::null_and_empty_and_the_border_between_columns_count",
            ),
            Published("testIllegalBucket testInvalidBucket", "fl_b_options::fl_031_bucket"),
            Published(
                "testRescaleCatalogTable testSuspendAndRecoverAfterRescaleOverwrite",
                "fl_c_buckets::fl_038_the_number_of_buckets_never_changes",
                "the number never changes",
            ),
        ),
    ),
    Suite(
        "Paimon 2026-08, `CompactActionITCase`, `DropPartitionActionITCase`, `CatalogTableITCase.testDropPartition`",
        (
            Published("testBatchCompact testLotsOfPartitionsCompact", "fl_d_batch::fl_045_compact_is_done_when_it_returns"),
            Published("testWrongUsage testSpecifyNonPartitionField", "fl_a_ddl::fl_015_what_is_no_partition"),
            Published(
                "testDropPartition testDropPartitionWithSinglePartitionKey testDropPartitionWithMultiplePartitionKey",
                "fl_d_batch::fl_079_drop_partition shapes::partitions_are_named_by_all_their_columns_or_by_some",
            ),
            Published(
                "testStreamingCompact testStreamingCompactWithAddingColumns testUnawareBucketStreamingCompact",
                reason="no stream compacts: schedules do, by plans",
            ),
        ),
    ),
    Suite(
        "Paimon 2026-08, `ExpireSnapshotsTest`, `ChangelogExpireTest`, `PartitionExpireTest`",
        (
            Published(
                "testExpireWithTime testExpireWithTimeProtectsEachSnapshot testChangelogExpire",
                "fl_g_retention::fl_075_changes_older_than_the_retention_go",
            ),
            Published(
                "testChangelogOutLivedSnapshot",
                "fl_f_reading::fl_065_the_reader_rebuilds_what_rows_were_before"
                " feed::rows_that_a_vacuum_took_away_are_not_read_wrongly",
                "changes outlive versions, as long as no row before them is asked for",
            ),
            Published(
                "testNeverExpire testFilterCommittedAfterExpiring", "fl_g_retention::fl_080_what_was_not_flushed_never_goes"
            ),
            Published(
                "testNoSnapshot testNotEnoughSnapshots testNumRetainedMin testExpireWithNumber testExpireEmptySnapshot",
                reason=_TIME_ONLY,
            ),
            Published(
                "testExpireWithMissingFiles testExpireExtraFiles testExpireWithMiddleChangelogNotFound",
                "feed::rows_that_a_vacuum_took_away_are_not_read_wrongly",
                "what is lost is told by `check`; see [damage](damage.md)",
            ),
            Published(
                "testMixedSnapshotAndTagDeletion testConsumerChangelogOnly", reason="tags and pins keep versions, not changes"
            ),
            Published(
                "test testBatchExpire testDeleteExpiredPartition testDonePartitionExpire testIllegalPartition"
                " testNonPartitionedTable",
                "fl_g_retention::fl_078_no_maintenance_removes_rows",
                "rows never expire by themselves",
            ),
        ),
    ),
)

SUITES = (*SPARK, *TABLE_STORE, *PAIMON)


def our_tests() -> dict[str, str]:
    """Each test that may be named here, with its file."""
    rooms = ("tables/dynamic", "spark", "tables/changes", "ingest/relay", "storage/kafka")
    paths = (path for room in rooms for path in sorted((TESTS / room).rglob("test_*.py")))
    return {
        f"{path.stem.removeprefix('test_')}::{name}": path.relative_to(TESTS.parent).as_posix()
        for path in paths
        for name in re.findall(r"^def test_(\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
