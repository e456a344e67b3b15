"""What a survey says of one table. The fields are those of the JSON that the command writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakewarden.delta.examination.figures import TableFigures
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
class TableSurvey(TableFigures):
    """One table, as of one look, with its figures."""

    path: str
    """Its URI in the canonical form: an absolute path, or `scheme://bucket/prefix`, `s3` for `s3a`."""
    verdict: Verdict
    table_id: str | None = None
    version: int | None = None
    damage: tuple[Damage, ...] = ()
    features: tuple[str, ...] = ()
    """In use, not only in the protocol."""
    place_class: PlaceClass = "unknown"
    error: str = ""
    """Why it is unreadable; empty where it is not."""
    operations: Mapping[str, OperationEstimate] = field(default_factory=dict)
    change: Change = ""
    """Since the last look; empty too where there is none to compare with."""
