"""Every setting, with its unit, default and reason. docs/reference/configuration.md is generated from here.

Order of precedence: `lakewarden.toml` in the working directory, then `LAKEWARDEN_SECTION__KEY`, then arguments.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LogSettings(Section):
    segment_max_rows: int = Field(
        262_144, ge=1, le=1_048_576, description="Rows of one log segment at most; a larger write becomes several."
    )
    segment_max_bytes: int = Field(64 << 20, ge=1 << 10, description="Bytes of one log segment, about.")
    carry_below: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Move unsettled rows out of settled segments once they are below this share of the segments' bytes.",
    )
    retention_seconds: float = Field(
        3600.0,
        ge=0,
        description="How long a row that a flush has taken stays readable for subscribers that come back (log_retention).",
    )


class FlushSettings(Section):
    in_process_below: int = Field(64, ge=0, description="Flush fewer scopes than this in the calling process, without Spark.")
    large_scope_bytes: int = Field(
        256 << 20, ge=1, description="A scope with more bytes than this to rewrite goes through Spark DataFrames."
    )
    compact_after: bool = Field(
        False, description="Compact the scopes that a flush wrote, right after it (Storage Tiers, flush.compaction.enabled)."
    )
    attempts: int = Field(5, ge=1, description="Times a scope's flush is tried when another commit comes between.")


class CompactionSettings(Section):
    min_eligible_segments: int = Field(5, ge=2, description="Small trailing files that a scope needs before it is compacted.")
    max_segments_per_run: int = Field(8, ge=2, description="Files that one compaction of a scope takes at most.")
    user_max_segment_rows: int = Field(
        10_000, ge=1, description="Rows a compacted file of a USER scope may have; fewer make a file small."
    )
    shared_max_segment_rows: int = Field(25_000, ge=1, description="The same for SHARED tables.")


class MaintenanceSettings(Section):
    target_file_size: int = Field(
        128 << 20, ge=1 << 10, description="Bytes that optimize packs files to, where a table has no TARGET_FILE_SIZE."
    )
    retention_hours: int = Field(
        168, ge=0, description="Hours that vacuum keeps removed files, where a table has no DELETED_RETENTION_HOURS."
    )
    min_gain: float = Field(
        0.25,
        ge=0,
        le=1,
        description="Share of its files that an optimize must save, else its rewrite is skipped as not worth it.",
    )


class LockSettings(Section):
    kind: Literal["objects", "process", "postgres"] = Field(
        "objects",
        description="What excludes two drops or schema changes of one table: leases in the warehouse alone, this process, or "
        "advisory locks of the Postgres server that PGHOST and libpq's other variables name.",
    )
    lease_seconds: float = Field(
        20.0, gt=0, description="Seconds without renewal after which a lock is taken over; it is renewed three times within them."
    )
    acquire_seconds: float = Field(480.0, ge=0, description="Seconds that are waited for a lock before it is a CONFLICT.")


class SqlSettings(Section):
    timeout_seconds: float = Field(300, gt=0, description="Seconds that one query may take.")
    memory_bytes: int = Field(1 << 30, ge=1 << 26, description="Bytes that DuckDB may use for all queries of a process.")
    threads: int = Field(2, ge=1, description="Threads that DuckDB uses for all queries of a process.")
    result_bytes: int = Field(1 << 30, ge=1 << 10, description="Bytes that the rows of one result may have.")


class FilesSettings(Section):
    max_bytes: int = Field(25 << 20, ge=1, description="Bytes of one file of a FILE column.")
    max_per_folder: int = Field(5000, ge=1, description="Files of a scope in one subfolder of `_files/`; then the next is begun.")
    allowed_mime: tuple[str, ...] = Field(("*/*",), description="MIME types that are taken; `image/*` stands for all of a kind.")


class JobsSettings(Section):
    max_retries: int = Field(3, ge=0, description="Times a queued job is tried again after a fault that may go away by itself.")
    retry_backoff_ms: int = Field(100, ge=0, description="Milliseconds before the first further try; doubled for each one after.")
    heartbeat_seconds: float = Field(
        2.0, gt=0, description="How often a running job shows its progress and learns that it was killed."
    )
    lease_seconds: float = Field(
        60.0, gt=0, description="A running job that has not shown itself for so long is taken over by the next `jobs run`."
    )


class SparkSettings(Section):
    master: str = Field(
        "local[2,4]", description="Spark master: local[cores,tries], spark://, k8s:// or yarn. local[N] alone retries nothing."
    )
    driver_memory: str = Field("2g", description="Heap of the driver; in local mode of everything.")
    task_bytes: int = Field(16 << 20, ge=1, description="Estimated bytes of scopes that are packed into one task.")
    task_scopes: int = Field(250, ge=1, description="Scopes that are packed into one task at most.")
    executor_archive: str | None = Field(
        None, description="URI of a packed environment for executors that lack the lakewarden wheel."
    )
    conf: dict[str, str] = Field(default_factory=dict, description="Further Spark settings, by their own names.")


class Settings(BaseSettings):
    """All settings, frozen; pass it, never read it from a global."""

    model_config = SettingsConfigDict(
        env_prefix="LAKEWARDEN_", env_nested_delimiter="__", toml_file="lakewarden.toml", frozen=True, extra="ignore"
    )

    log: LogSettings = LogSettings()
    flush: FlushSettings = FlushSettings()
    compaction: CompactionSettings = CompactionSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    locks: LockSettings = LockSettings()
    sql: SqlSettings = SqlSettings()
    files: FilesSettings = FilesSettings()
    jobs: JobsSettings = JobsSettings()
    spark: SparkSettings = SparkSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)
