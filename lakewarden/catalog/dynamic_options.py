"""The options of a dynamic table, frozen when it is created (FLIP-188). `catalog.dynamic_declaration` reads and checks them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

LogSystem = Literal["object", "kafka", "none"]
Consistency = Literal["transactional", "eventual"]
ChangelogMode = Literal["auto", "upsert", "all"]
LogScan = Literal["full", "latest", "from-timestamp"]


@dataclass(frozen=True)
class DynamicOptions:
    """What makes a SHARED table a dynamic one."""

    bucket: int = 1
    """Into how many files each partition is divided, by the hash of the key; also the partitions of its topic."""
    log_system: LogSystem = "object"
    log_retention: int | float | None = None
    """Seconds that changes are kept; None for the log system's own."""
    log_scan: LogScan = "full"
    log_scan_timestamp: int | None = None
    """Milliseconds since 1970; known if, and only if, `log_scan` is `from-timestamp`."""
    log_consistency: Consistency = "transactional"
    log_changelog_mode: ChangelogMode = "auto"
    """As declared: `changes_of` says what `auto` means."""
    log_key_format: str = "json"
    log_format: str = "debezium-json"
    change_tracking: bool = True
    file_path: str | None = None
    """The base of the table's storage, where it was given."""
    file_format: str = "parquet"
    watermark: str | None = None
    """The column whose highest value DESCRIBE shows."""
    kafka: dict[str, str] = field(default_factory=dict, hash=False)
    """The options `log.kafka.*`, without this prefix."""

    def changes_of(self, *, keyed: bool) -> Literal["upsert", "all"]:
        """Which changes the log has: `all` with rows as they were before, `upsert` without."""
        if self.log_changelog_mode != "auto":
            return self.log_changelog_mode
        return "upsert" if keyed else "all"

    def keeps_before(self, *, keyed: bool) -> bool:
        """Whether the log has the row before each change. Without a key rows are only added, and have none before them."""
        return keyed and self.change_tracking and self.changes_of(keyed=keyed) == "all"
