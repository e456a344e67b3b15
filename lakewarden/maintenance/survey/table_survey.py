"""What a survey says of one table. The fields are those of the JSON that the command writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakewarden.delta.examination.kinds import DamageKind, Verdict
from lakewarden.delta.features import Engine

PlaceClass = Literal["conditional", "overwrites", "dynamodb", "commit-service", "catalog", "unknown"]
"""How the writers of a place keep each other's commits apart."""

Change = Literal["new", "changed", "gone", ""]
"""Since the last look at the place."""


@dataclass(frozen=True)
class Damage:
    """Something that is wrong with a table."""

    kind: DamageKind
    detail: str
    versions: tuple[int, ...] = ()
    """Of the log, where the damage is in commits or checkpoints."""


@dataclass(frozen=True)
class OperationEstimate:
    """What one operation would do with the table now."""

    route: Engine
    reason: str = ""
    """Why it is not native; empty where it is."""
    requests: int = 0
    """On a disk, how many files would be read, written or listed: as many requests as it would take in a bucket."""
    bytes: int = 0
    """Read and written."""
    dollars: float = 0.0
    """Of the requests and of the bytes that leave the store; 0 on a disk."""
    error: float = 0.0
    """The share by which requests and dollars may be off."""


@dataclass(frozen=True)
class TableSurvey:
    """One table, as of one look. Sizes in bytes; a figure that is not known is None."""

    path: str
    """Its URI in the canonical form: an absolute path, or `scheme://bucket/prefix`, `s3` for `s3a`."""
    verdict: Verdict
    table_id: str | None = None
    version: int | None = None
    damage: tuple[Damage, ...] = ()
    features: tuple[str, ...] = ()
    """In use, not only in the protocol."""
    writers: Mapping[str, int] = field(default_factory=dict)
    """How many of the commits in the log each `engineInfo` made."""
    place_class: PlaceClass = "unknown"
    files: int | None = None
    bytes: int | None = None
    small_files: int | None = None
    vector_rows: int | None = None
    """Rows that deletion vectors take out."""
    dead_bytes: int | None = None
    """Of files in its directory that no live version names, whether a commit removed them or none ever named them."""
    unnamed_files: int | None = None
    """Data files that neither a live version nor a `remove` names."""
    alien_files: int | None = None
    """Of other kinds than Delta's."""
    commits_since_checkpoint: int | None = None
    log_bytes: int | None = None
    log_objects: int | None = None
    oldest_version: int | None = None
    """The oldest that opens."""
    error: str = ""
    """Why it is unreadable; empty where it is not."""
    operations: Mapping[str, OperationEstimate] = field(default_factory=dict)
    change: Change = ""
    """Empty too where there is no last look to compare with."""
