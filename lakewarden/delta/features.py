"""The table features of Delta as values: what each asks of whom, when it is in use, and who may do what with it.

A feature in the protocol is not one in use: engines turn on many that no file and no column needs. What is not named here is
refused by name. Sources: Delta's protocol, "Table Features", "Valid Feature Names in Table Features", "Reader Version
Requirements", "Writer Version Requirements"; and its RFCs for what is in preview.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from lakewarden.delta.commit_log.actions import MOST_READER, MOST_WRITER, TableHead
from lakewarden.delta.replay.actions import Protocol
from lakewarden.delta.replay.log_state import LogState
from lakewarden.errors import Unsupported

Operation = Literal["read", "vacuum", "compact", "cluster", "restore", "erase"]
Engine = Literal["native", "spark", "refused"]

OPERATIONS: tuple[Operation, ...] = ("read", "vacuum", "compact", "cluster", "restore", "erase")
_ORDER: tuple[Engine, ...] = ("native", "spark", "refused")

InUse = Callable[[LogState], bool]


def _set(name: str) -> InUse:
    return lambda state: state.metadata.says(name)


def _column_says(word: str) -> InUse:
    """`word` begins a text of the schema's JSON."""
    return lambda state: f'"{word}' in (state.metadata.schema_string or "")


def _has_vectors(state: LogState) -> bool:
    vectors = state.files.column("deletionVector")
    return vectors.null_count < len(vectors)


@dataclass(frozen=True)
class Feature:
    """One table feature."""

    name: str
    reader: bool = False
    """Whether readers have to know it, too."""
    legacy: tuple[int | None, int | None] = (None, None)
    """From which versions of reader and writer on it is meant without being listed."""
    in_use: InUse = lambda _: True
    routes: Mapping[Operation, Engine] = field(default_factory=dict)
    """Who may do what where it is in use; native where nothing is said."""
    carried: str = ""
    """What a commit to such a table has to carry."""
    reason: str = ""
    """Why an operation is not native."""
    kept: bool = False
    """Whether a commit of ours to a table of our own keeps it; else it is refused before anything is written."""


_ITS_CATALOG = "its catalog decides which commits there are"
_ICEBERG = "the metadata for Iceberg has to follow each commit"
_REWRITES: tuple[Operation, ...] = ("compact", "cluster")


def _routes(engine: Engine, *operations: Operation) -> Mapping[Operation, Engine]:
    return MappingProxyType(dict.fromkeys(operations, engine))


_BY_CATALOG = _routes("refused", *OPERATIONS)
_BY_SPARK = _routes("spark", *_REWRITES)

FEATURES: tuple[Feature, ...] = (
    Feature(
        "appendOnly",
        legacy=(None, 2),
        in_use=_set("delta.appendOnly"),
        routes=_routes("refused", "restore"),
        carried="dataChange is false in a rewrite",
        reason="rows may only be added",
        kept=True,
    ),
    Feature("invariants", legacy=(None, 2), in_use=_column_says("delta.invariants"), kept=True),
    Feature(
        "checkConstraints",
        legacy=(None, 3),
        in_use=lambda state: any(name.startswith("delta.constraints.") for name in state.metadata.configuration),
        kept=True,
    ),
    Feature(
        "changeDataFeed",
        legacy=(None, 4),
        in_use=_set("delta.enableChangeDataFeed"),
        carried="dataChange is false in a rewrite; change files stay as long as their commit",
        kept=True,
    ),
    Feature("generatedColumns", legacy=(None, 4), in_use=_column_says("delta.generationExpression"), kept=True),
    Feature("allowColumnDefaults", in_use=_column_says("CURRENT_DEFAULT")),
    Feature(
        "columnMapping",
        reader=True,
        legacy=(2, 5),
        in_use=lambda state: state.metadata.property("delta.columnMapping.mode") not in ("", "none"),
        carried="physical names in files, statistics and partition values; field ids",
        kept=True,
    ),
    Feature(
        "identityColumns",
        legacy=(None, 6),
        in_use=_column_says("delta.identity"),
        carried="no older metaData: it sets the high-water mark back",
        reason="its values are given by its own writer",
    ),
    Feature("deletionVectors", reader=True, in_use=_has_vectors, carried="a remove names the vector of its add", kept=True),
    Feature("timestampNtz", reader=True, in_use=_column_says('timestamp_ntz"'), carried="INT96 becomes microseconds", kept=True),
    Feature("timestampWithoutTimezone", reader=True),  # the same by a name that never was Delta's, and some tables have
    Feature(
        "v2Checkpoint",
        reader=True,
        in_use=lambda state: state.checkpoint is not None and state.checkpoint.kind == "UUID-named",
        carried="sidecars stay; no checkpoint in another form",
        kept=True,
    ),
    Feature(
        "rowTracking",
        in_use=_set("delta.enableRowTracking"),
        carried="baseRowId, defaultRowCommitVersion, materialized ids, and the high-water mark in its domain",
    ),
    Feature("domainMetadata", in_use=lambda state: bool(state.domains), carried="domains stay as they are"),
    Feature(
        "clustering",
        in_use=lambda state: "delta.clustering" in state.domains,
        routes=_routes("spark", "cluster"),
        carried="clusteringProvider on clustered files alone",
        reason="Spark clusters by its own curve",
    ),
    Feature("liquid", routes=_BY_SPARK, reason="it is clustering before its release"),
    *(
        Feature(
            f"inCommitTimestamp{stage}",
            in_use=_set(f"delta.enableInCommitTimestamps{stage}"),
            carried="inCommitTimestamp first in commitInfo, above that of the commit before",
        )
        for stage in ("", "-preview")
    ),
    *(
        Feature(
            name,
            reader=True,
            in_use=_column_says("delta.typeChanges"),
            routes=_routes("spark", "restore"),
            carried="files in today's types",
            reason="an older version has narrower types",
        )
        for name in ("typeWidening", "typeWidening-preview")
    ),
    *(
        Feature(
            name,
            reader=True,
            in_use=_column_says('variant"'),
            routes=MappingProxyType({"read": "spark", "compact": "spark", "cluster": "spark"}),
            reason="a column has the type VARIANT",
            kept=name.startswith("variantType"),
        )
        for name in ("variantType", "variantType-preview", "variantShredding", "variantShredding-preview")
    ),
    *(
        Feature(name, routes=_routes("spark", "compact", "cluster", "restore"), reason=_ICEBERG)
        for name in ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")
    ),
    *(
        Feature(name, routes=_routes("refused", "compact", "cluster", "restore", "erase"), reason=_ICEBERG)
        for name in ("icebergWriterCompatV1", "icebergWriterCompatV3")
    ),
    Feature("materializePartitionColumns", routes=_BY_SPARK, reason="partition columns are in its files, too"),
    Feature("vacuumProtocolCheck", reader=True, carried="a vacuum knows all of the table's features"),
    Feature("checkpointProtection", carried="its log is never cleaned"),
    *(
        Feature(name, reader=True, routes=_BY_CATALOG, reason=_ITS_CATALOG)
        for name in ("catalogManaged", "catalogOwned", "catalogOwned-preview")
    ),
    Feature(
        "coordinatedCommits-preview",
        routes=_routes("refused", "vacuum", "compact", "cluster", "restore", "erase"),
        reason=_ITS_CATALOG,
    ),
    Feature("redirectReaderWriter-preview", reader=True, routes=_BY_CATALOG, reason="it is only a pointer to another table"),
    Feature(
        "redirectWriterOnly-preview",
        routes=_routes("refused", "vacuum", "compact", "cluster", "restore", "erase"),
        reason="its writers are sent to another table",
    ),
)

_BY_NAME = {feature.name: feature for feature in FEATURES}


@dataclass(frozen=True)
class Route:
    """Who does an operation, and why it is not done natively."""

    engine: Engine
    reason: str = ""


@lru_cache(maxsize=1024)  # most tables of a place have one of a few, and a survey asks for each operation
def features_of(protocol: Protocol) -> frozenset[str]:
    """The names of all features that a protocol asks for, listed or meant by its versions."""
    listed = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return frozenset(listed | {feature.name for feature in FEATURES if _is_meant(feature, protocol)})


def _is_meant(feature: Feature, protocol: Protocol) -> bool:
    reader, writer = feature.legacy
    return (reader is not None and reader <= protocol.min_reader_version < MOST_READER) or (
        writer is not None and writer <= protocol.min_writer_version < MOST_WRITER
    )


@lru_cache(maxsize=1024)
def unknown_features(protocol: Protocol) -> tuple[str, ...]:
    """Those that are not named here, and versions of the protocol that are not known, in words."""
    versions = _unknown_versions(protocol.min_reader_version, protocol.min_writer_version)
    listless = protocol.min_writer_version == MOST_WRITER and protocol.writer_features is None
    unlisted = [f"writer version {MOST_WRITER} without its list of features"] if listless else []
    return (*sorted(features_of(protocol) - _BY_NAME.keys()), *versions, *unlisted)


def asked_wrongly(state: LogState) -> Iterator[str]:
    """Features that this version uses and its protocol does not ask for: readers may pass over them, and then find other rows.
    And those of readers that one of the two lists lacks: Delta's kernel opens no such table."""
    protocol = state.protocol
    for each in (_BY_NAME["columnMapping"], _BY_NAME["deletionVectors"]):
        if each.name not in features_of(protocol) and each.in_use(state):
            yield f"{each.name} is used, and not asked for"
    if (protocol.min_reader_version, protocol.min_writer_version) == (MOST_READER, MOST_WRITER):
        alone = {*(protocol.reader_features or ())} ^ {*(protocol.writer_features or ())}
        yield from (
            f"{each.name} is asked of readers or of writers alone" for each in FEATURES if each.reader and each.name in alone
        )


def in_use(state: LogState) -> tuple[Feature, ...]:
    """The known features that this version uses."""
    names = features_of(state.protocol)
    return tuple(feature for feature in FEATURES if feature.name in names and feature.in_use(state))


def route(state: LogState, operation: Operation, used: Sequence[Feature] | None = None) -> Route:
    """Who may do that: the most careful engine of all features in use, which the caller may know already."""
    if operation == "read":
        names = sorted({*(state.protocol.reader_features or ())} - _BY_NAME.keys())
        if unknown := (*names, *_unknown_versions(state.protocol.min_reader_version, MOST_WRITER)):
            return Route("refused", f"unknown-feature: {', '.join(unknown)}")
    elif unknown := unknown_features(state.protocol):
        return Route("refused", f"unknown-feature: {', '.join(unknown)}")
    elif state.unknown:
        return Route("refused", f"unknown-action: {', '.join(sorted(state.unknown))}")
    worst = Route("native")
    for feature in in_use(state) if used is None else used:
        engine = feature.routes.get(operation, "native")
        if _ORDER.index(engine) > _ORDER.index(worst.engine):
            worst = Route(engine, f"{feature.name}: {feature.reason}")
    return worst


def check_readable(state: LogState) -> None:
    """Raises Unsupported: the version has a feature in use that is not read; its catalog alone knows its commits."""
    found = route(state, "read")
    if found.engine == "refused":
        raise Unsupported(f"{state.location.uri} is not read: {found.reason}")


def _unknown_versions(reader: int, writer: int) -> Iterator[str]:
    if not 1 <= reader <= MOST_READER:
        yield f"reader version {reader}"
    if not 1 <= writer <= MOST_WRITER:
        yield f"writer version {writer}"


def check_grows(head: TableHead, where: str) -> None:
    """Call this before a commit that takes rows away, or changes some. A fence is none: it ends the table.

    Raises:
        Unsupported: the table is append-only.
    """
    if head.configuration.get("delta.appendOnly", "").lower() == "true":
        raise Unsupported(
            f"{where} is append-only: another writer set delta.appendOnly, so rows are added, and none is changed or deleted."
            " ALTER TABLE … UNSET TBLPROPERTIES ('delta.appendOnly') ends that"
        )


def check_features(head: TableHead, where: str) -> None:
    """Call this before anything is written for a commit to a table of our own.

    What asks nothing unless it is used is looked at where it is: columns (`delta.row_rules`, `ScopeTable.schema_version`),
    vectors (`ScopeTable.check_plain`).

    Raises:
        Unsupported: the table has a feature that a commit of ours would not keep.
    """
    foreign = [name for name in sorted(head.features) if name not in _BY_NAME or not _BY_NAME[name].kept]
    if foreign := [*foreign, *_unknown_versions(head.reader, head.writer)]:
        raise Unsupported(
            f"{where} has table features of another writer that our commits would not keep: {', '.join(foreign)}."
            " It is read as it is, and nothing is committed to it until that writer drops them (ALTER TABLE … DROP FEATURE)"
        )
    if (mode := head.configuration.get("delta.columnMapping.mode", "none")) != "none":
        raise Unsupported(f"{where} was given column mapping ({mode}) by another writer, which our commits would not keep")
    if 4 < head.writer < MOST_WRITER and "delta.identity." in head.schema:
        raise Unsupported(f"{where} has identity columns of another writer, whose values our commits would not give")
