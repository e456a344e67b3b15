"""Answers of K3's calls in its wire form. Every field is always there (K3-8). The OpenAPI document has these types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from lakewarden.client.k3.wire import ColumnKind, EngineStatus, K3TableStatus, TableSource
from lakewarden.sql.results import QueryStrategy, ServedBy, WireEnum, WriteStrategy


def _names(kind: type[WireEnum]) -> Meta:
    return Meta(extra_json_schema={"enum": [*kind.wires()]})


Int64 = Annotated[str, Meta(pattern="^-?[0-9]+$", description="a whole number of 64 bits")]
Int64OrEmpty = Annotated[
    str, Meta(pattern="^(-?[0-9]+)?$", description="a whole number of 64 bits, or empty where there is none")
]
Fields = Mapping[str, object]
"""An object whose names are not K3's: of columns, metrics, or the caller's own."""


class EngineAnswer(TypedDict):
    engineId: str
    bucket: str
    status: Annotated[str, _names(EngineStatus)]
    settings: str
    tableCount: int
    createdAt: Int64
    updatedAt: Int64


class ColumnAnswer(TypedDict):
    name: str
    type: Annotated[str, _names(ColumnKind)]
    nullable: bool
    defaultExpression: str


class TableAnswer(TypedDict):
    """`deltaVersion` is empty before a pipeline's first object; it, `rowCount` and `sizeBytes` where the table cannot be read."""

    tableId: str
    bucket: str
    engineId: str
    name: str
    description: str
    columns: list[ColumnAnswer]
    partitionColumns: list[str]
    mergeKeys: list[str]
    source: Annotated[str, _names(TableSource)]
    deltaVersion: Int64OrEmpty
    rowCount: Int64OrEmpty
    sizeBytes: Int64OrEmpty
    status: Annotated[str, _names(K3TableStatus)]
    createdAt: Int64
    updatedAt: Int64
    pipelineId: str


class DeletedAnswer(TypedDict):
    tableId: str
    bucket: str
    name: str
    deleted: bool


class DescriptionAnswer(TypedDict):
    bucket: str
    name: str
    version: Int64OrEmpty
    lastDrainTargetVersion: Int64OrEmpty
    lastDrainAt: Int64OrEmpty
    lastDrainRowsInserted: Int64
    lastDrainRowsUpdated: Int64
    lastDrainRowsDeleted: Int64
    drainLagSecs: Int64


class PartitionAnswer(TypedDict):
    values: Fields
    fileCount: Int64
    rowCount: Int64
    sizeBytes: Int64


class WriteAnswer(TypedDict):
    """`version` is 0 for what went through the write log."""

    strategy: Annotated[str, _names(WriteStrategy)]
    rowsWritten: Int64
    noop: bool
    pendingDrain: bool
    version: Int64
    targetTable: str
    warnings: list[str]


class QueryAnswer(TypedDict):
    columns: list[str]
    rows: Sequence[Fields]
    rowCount: Int64
    strategy: Annotated[str, _names(QueryStrategy)]
    servedBy: Annotated[str, _names(ServedBy)]
    strategyReason: str
    warnings: list[str]


class DefinitionAnswer(TypedDict):
    """Of CREATE, ALTER and DROP TABLE; of a dropped table there is no version."""

    op: str
    targetTable: str
    version: NotRequired[Int64]


class HistoryAnswer(TypedDict):
    version: Int64
    timestamp: Int64
    operation: str
    parameters: Fields
    operationMetrics: Fields
    userMetadata: Fields
    engineInfo: str
    readVersion: Int64


class OptimizeAnswer(TypedDict):
    version: Int64
    optimizeType: str
    filesAdded: Int64
    filesRemoved: Int64
    bytesAdded: Int64
    bytesRemoved: Int64
    partitionsOptimized: Int64
    totalConsideredFiles: Int64
    totalFilesSkipped: Int64


class VacuumAnswer(TypedDict):
    version: Int64
    dryRun: bool
    filesDeleted: Int64
    bytesDeleted: Int64
    files: list[str]


class CompactAnswer(TypedDict):
    version: Int64
    rowsDrained: Int64
    pendingDrain: bool


class RestoreAnswer(TypedDict):
    version: Int64
    restoredVersion: Int64


class RuleAnswer(TypedDict):
    """`maxSize` is empty for any."""

    ruleId: str
    bucket: str
    pipelineId: str
    table: str
    globs: list[str]
    excludes: list[str]
    mimeTypes: list[str]
    minSize: Int64
    maxSize: Int64OrEmpty
    enabled: bool
    createdAt: Int64
    updatedAt: Int64


class IngestAnswer(TypedDict):
    bucket: str
    table: str
    pipelineId: str
    object: str
    etag: str
    status: str
    reason: str
    rowsWritten: Int64
    version: Int64
    jobId: str
