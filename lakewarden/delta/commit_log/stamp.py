"""What a commit of ours says about itself, in Delta's `userMetadata`: job, operation, parameters, metrics, range of `_seq`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from lakewarden.base import exact_json
from lakewarden.base.commit_metadata import carried, merged
from lakewarden.delta.replay.actions import CommitActions

_MARK = "lakewarden"
_METADATA = "metadata"
_FORMAT = 1
_encoded = msgspec.json.Encoder(order="deterministic").encode
MOVE = "MOVE"
"""Operation of the commits that freeze a scope and let it go again (delta/lifecycle/states.py)."""
DROP = "DROP"
ERASE = "ERASE"
"""Operations of the commits that are fences (delta/lifecycle/fence.py)."""
SWEEP = "SWEEP"
"""Of the commit with which a fence ends (maintenance/vacuum/sweep.py)."""

RESTORE = "RESTORE"
SILENT = {"changelog": "none"}
"""The parameter of a direct write that makes no changes for subscribers."""

LEFT_OUT = "metadataLeftOut"
"""The parameter of a flush that counts the objects of metadata for which its commit had no room."""

_DIRECT = ("WRITE", "UPDATE", "DELETE", "MERGE", "TRUNCATE")
"""Operations of direct writes (tables/direct)."""


@dataclass(frozen=True)
class CommitStamp:
    """`operation` is one of Delta's own names (`WRITE`, `MERGE`, `OPTIMIZE`, `RESTORE`, …); what history shows.

    `first_seq` and `last_seq` are the range of the `log_rows` rows that the commit took from the log; None where it took none. A
    flush names the log (`app_id`) and the user that the rows are of, so that a copied table is not taken for the scope's own.
    """

    job_id: str
    operation: str
    parameters: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    first_seq: int | None = None
    last_seq: int | None = None
    log_rows: int | None = None
    app_id: str | None = None
    user: str | None = None
    metadata: str = field(default_factory=carried)
    """What the caller attached to the commit, a JSON object; empty for most."""

    @property
    def direct(self) -> bool:
        """Whether it is a direct write: it changed rows, and took none from the log."""
        return self.app_id is not None and self.log_rows is None and self.operation in _DIRECT

    @property
    def silent(self) -> bool:
        """Whether subscribers are not to hear of it, and go on: the overwrite of a dynamic table (FL-44)."""
        return SILENT.items() <= self.parameters.items()

    @property
    def sets_back(self) -> bool:
        """Whether rows changed that subscribers may have seen, and no row of the log says so."""
        return self.operation == RESTORE or (self.direct and self.parameters.get("mode") != "Append")

    def with_metadata(self, earlier: Sequence[str]) -> CommitStamp:
        """The same with the metadata of the writes whose rows it takes, in their order; that of the commit itself counts last."""
        if not earlier:
            return self
        found = merged([*earlier, self.metadata])
        left_out = {LEFT_OUT: str(found.left_out)} if found.left_out else {}
        return replace(self, metadata=found.text, parameters=self.parameters | left_out)

    def text(self) -> str:
        """The userMetadata; equal stamps have equal texts."""
        said: dict[str, object] = {_MARK: _FORMAT, **vars(self)}
        if not said.pop(_METADATA):
            return _encoded(said).decode()
        return _encoded(said | {_METADATA: msgspec.Raw(self.metadata.encode())}).decode()

    @property
    def fences(self) -> bool:
        """Whether nothing that was committed before it is there any more."""
        return self.operation in (DROP, ERASE)

    @classmethod
    def of(cls, commit: CommitActions) -> CommitStamp | None:
        """The stamp of a commit of ours, None for anybody else's userMetadata."""
        text = commit.info.get("userMetadata")
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except ValueError:
            return None
        if not isinstance(found, dict) or found.pop(_MARK, None) != _FORMAT:
            return None
        try:
            return cls(**found | {_METADATA: exact_json.encode(found[_METADATA]) if _METADATA in found else ""})
        except TypeError:  # a later release's field: its commits are then shown as delta-rs names them
            return None
