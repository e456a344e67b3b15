"""Packs the JSON of Dagster's events into an eighth of its bytes, for storages that do not compress.

Most of an event is the same in all of them: the names of Dagster's classes and of our metadata. A frame has these; zlib takes it
as the text that came before. What is packed names its frame, so a frame never changes: one that fits better is added.
"""

from __future__ import annotations

import zlib

_SERIALIZED = '{"__class__": '
"""How everything begins that Dagster serializes; nothing else is packed."""

_FEW = 256
"""Characters that are not worth packing."""

_FIRST_FRAME = (
    '{"__class__": "MarkdownMetadataEntryData", "md_str": "{"__class__": "UrlMetadataEntryData", "url": "'
    '{"__class__": "BoolMetadataEntryData", "value": true{"__class__": "FloatMetadataEntryData", "value": '
    '{"__class__": "AssetObservation", "asset_key": {"__class__": "AssetObservationData", "asset_observation": '
    '"event_type_value": "ASSET_OBSERVATION", "restore: done", "optimize: done", "compact: done", "vacuum: done", '
    '"rows_deleted=0 files_removed=0 bytes_removed=0", "{"__class__": "EventLogEntry", "dagster_event": '
    '{"__class__": "DagsterEvent", "event_specific_data": {"__class__": "StepMaterializationData", "asset_lineage": [], '
    '"materialization": {"__class__": "AssetMaterialization", "asset_key": {"__class__": "AssetKey", "path": ["app", '
    '"events"]}, "description": "flush: done", "metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, '
    '"entry_data": {"__class__": "PathMetadataEntryData", "path": "s3://warehouse/data/app/events/"}, "label": "path"}, '
    '{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 10}, '
    '"label": "dagster/partition_row_count"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": '
    '{"__class__": "TextMetadataEntryData", "text": "flush"}, "label": "operation"}, {"__class__": "EventMetadataEntry", '
    '"description": null, "entry_data": {"__class__": "TimestampMetadataValue", "value": 179}, "label": "committed_at"}, '
    '{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 0}, '
    '"label": "hot/backlog_bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": '
    '"IntMetadataEntryData", "value": 0}, "label": "delta/version"}, {"__class__": "EventMetadataEntry", "description": null, '
    '"entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": "delta/num_files"}, {"__class__": '
    '"EventMetadataEntry", "description": null, "entry_data": {"__class__": "IntMetadataEntryData", "value": 1}, "label": '
    '"delta/bytes"}, {"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": '
    '"TextMetadataEntryData", "text": "job_id=FL-0"}, "label": "parameters"}, {"__class__": "EventMetadataEntry", "description": '
    'null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "rows_upserted=1 rows_inserted=1 rows_written=1 '
    'files_added=1 bytes_written=1"}, "label": "metrics"}, {"__class__": "EventMetadataEntry", "description": null, '
    '"entry_data": {"__class__": "MarkdownMetadataEntryData", "md_str": "[to an earlier version](/guess/restore_app__events'
    "/playground/setup?config=ops:%0A++restore_table:%0A++++config:%0A++++++to:+%27%27&tags%5B0%5D%5Bkey%5D=dagster/partition"
    '&tags%5B0%5D%5Bvalue%5D=)"}, "label": "restore"}], "partition": "", "tags": null}}, "event_type_value": '
    '"ASSET_MATERIALIZATION", "logging_tags": {"job_name": "flush_job", "op_name": "flush", "resource_fn_name": "None", '
    '"resource_name": "None", "run_id": "", "step_key": "flush"}, "message": "flush: done", "pid": 1, "pipeline_name": '
    '"flush_job", "solid_handle": {"__class__": "SolidHandle", "name": "flush", "parent": null}, "step_handle": {"__class__": '
    '"StepHandle", "key": "flush", "solid_handle": {"__class__": "SolidHandle", "name": "flush", "parent": null}}, "step_key": '
    '"flush", "step_kind_value": "COMPUTE"}, "error_info": null, "level": 10, "message": "", "pipeline_name": "flush_job", '
    '"run_id": "", "step_key": "flush", "timestamp": 179, "user_message": "flush: done"}'
)

_FRAMES = (_FIRST_FRAME.encode(),)


def pack(text: str) -> str | bytes:
    """The text itself if it is short, or nothing that Dagster serialized."""
    if len(text) < _FEW or not text.startswith(_SERIALIZED):
        return text
    newest = len(_FRAMES) - 1
    packing = zlib.compressobj(zdict=_FRAMES[newest])
    return bytes([newest]) + packing.compress(text.encode()) + packing.flush()


def unpack(stored: str | bytes) -> str:
    """Raises:
    ValueError: a later release packed it, or it is damaged.
    """
    if isinstance(stored, str):
        return stored
    frame = _FRAMES[stored[0]] if stored and stored[0] < len(_FRAMES) else None
    if frame is None:
        raise ValueError(f"an event is packed by a later release of Lakewarden (frame {stored[:1]!r}); use that release")
    try:
        return zlib.decompressobj(zdict=frame).decompress(stored[1:]).decode()
    except zlib.error as error:
        raise ValueError(f"a packed event is damaged: {error}") from error
