"""Every setting, with its unit, default and reason. docs/reference/configuration.md is generated from here.

`load_settings` reads them: `lakewarden.toml` in the working directory, and over it `LAKEWARDEN_SECTION__KEY`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from lakewarden.errors import InvalidArgument

FILE = Path("lakewarden.toml")
_VARIABLE = "LAKEWARDEN_"


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    segment_max_rows: Annotated[
        int, Meta(ge=1, le=1_048_576, description="Rows of one log segment at most; a larger write becomes several.")
    ] = 262_144
    segment_max_bytes: Annotated[int, Meta(ge=1 << 10, description="Bytes of one log segment, about.")] = 64 << 20
    carry_below: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Move unsettled rows out of settled segments once they are below this share of the segments' bytes.",
        ),
    ] = 0.5
    retention_seconds: Annotated[
        float,
        Meta(ge=0, description="Seconds that flushed rows stay readable for subscribers that come back (log_retention)."),
    ] = 3600.0


class FlushSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    in_process_below: Annotated[
        int, Meta(ge=0, description="Flush fewer scopes than this in the calling process, without Spark.")
    ] = 64
    large_scope_bytes: Annotated[
        int, Meta(ge=1, description="A scope with more bytes than this to rewrite goes through Spark DataFrames.")
    ] = 256 << 20
    compact_after: Annotated[
        bool, Meta(description="Compact the scopes that a flush wrote, right after it (Storage Tiers, flush.compaction.enabled).")
    ] = False
    attempts: Annotated[int, Meta(ge=1, description="Times a scope's flush is tried when another commit comes between.")] = 5


class CompactionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    min_eligible_segments: Annotated[
        int, Meta(ge=2, description="Small trailing files that a scope needs before it is compacted.")
    ] = 5
    max_segments_per_run: Annotated[int, Meta(ge=2, description="Files that one compaction of a scope takes at most.")] = 8
    user_max_segment_rows: Annotated[
        int, Meta(ge=1, description="Rows a compacted file of a USER scope may have; fewer make a file small.")
    ] = 10_000
    shared_max_segment_rows: Annotated[int, Meta(ge=1, description="The same for SHARED tables.")] = 25_000


class MaintenanceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target_file_size: Annotated[
        int, Meta(ge=1 << 10, description="Bytes that optimize packs files to, where a table has no TARGET_FILE_SIZE.")
    ] = 128 << 20
    retention_hours: Annotated[
        int, Meta(ge=0, description="Hours that vacuum keeps removed files, where a table has no DELETED_RETENTION_HOURS.")
    ] = 168
    fence_retention_hours: Annotated[
        int,
        Meta(
            ge=48,
            description="Hours that what refuses late writers stays behind dropped tables and erased users, before a vacuum"
            " removes it. A flush, rewrite, vacuum or restore commits nothing more a day after it was planned.",
        ),
    ] = 168
    job_retention_days: Annotated[
        int, Meta(ge=1, description="Days that jobs which are over stay in the job log; then a vacuum removes them.")
    ] = 30
    audit_retention_days: Annotated[
        int, Meta(ge=0, description="Days that entries stay in the audit log; then a vacuum removes them. 0 keeps them all.")
    ] = 365
    min_gain: Annotated[
        float,
        Meta(
            ge=0, le=1, description="Share of its files that an optimize must save, else its rewrite is skipped as not worth it."
        ),
    ] = 0.25


class LockSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Annotated[
        Literal["objects", "process", "postgres"],
        Meta(
            description="What excludes two drops or schema changes of one table: leases in the warehouse alone, this process, or "
            "advisory locks of the Postgres server that PGHOST and libpq's other variables name."
        ),
    ] = "objects"
    lease_seconds: Annotated[
        float,
        Meta(
            gt=0, description="Seconds without renewal after which a lock is taken over; it is renewed three times within them."
        ),
    ] = 20.0
    acquire_seconds: Annotated[float, Meta(ge=0, description="Seconds that are waited for a lock before it is a CONFLICT.")] = (
        480.0
    )


class SqlSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    timeout_seconds: Annotated[float, Meta(gt=0, description="Seconds that one query may take.")] = 300.0
    memory_bytes: Annotated[int, Meta(ge=1 << 26, description="Bytes that DuckDB may use for all queries of a process.")] = (
        1 << 30
    )
    threads: Annotated[int, Meta(ge=1, description="Threads that DuckDB uses for all queries of a process.")] = 2
    cache_bytes: Annotated[
        int, Meta(ge=0, description="Bytes of data files' columns that a process keeps for the next query; 0 keeps none.")
    ] = 256 << 20
    result_bytes: Annotated[int, Meta(ge=1 << 10, description="Bytes that the rows of one result may have.")] = 1 << 30


class FilesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_bytes: Annotated[int, Meta(ge=1, description="Bytes of one file of a FILE column.")] = 25 << 20
    max_per_folder: Annotated[
        int, Meta(ge=1, description="Files of a scope in one subfolder of `_files/`; then the next is begun.")
    ] = 5000
    max_per_request: Annotated[int, Meta(ge=1, description="Files that one write, or one SQL text, may bring along.")] = 20
    allowed_mime: Annotated[
        tuple[str, ...], Meta(description="MIME types that are taken; `image/*` stands for all of a kind.")
    ] = ("*/*",)


class JobsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_retries: Annotated[
        int, Meta(ge=0, description="Times a queued job is tried again after a fault that may go away by itself.")
    ] = 3
    retry_backoff_ms: Annotated[
        int, Meta(ge=0, description="Milliseconds before the first further try; doubled for each one after.")
    ] = 100
    heartbeat_seconds: Annotated[
        float, Meta(gt=0, description="How often a running job shows its progress and learns that it was killed.")
    ] = 2.0
    lease_seconds: Annotated[
        float, Meta(gt=0, description="A running job that has not shown itself for so long is taken over by the next `jobs run`.")
    ] = 60.0


class SparkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    master: Annotated[
        str, Meta(description="Spark master: local[cores,tries], spark://, k8s:// or yarn. local[N] alone retries nothing.")
    ] = "local[2,4]"
    driver_memory: Annotated[str, Meta(description="Heap of the driver; in local mode of everything.")] = "2g"
    task_bytes: Annotated[int, Meta(ge=1, description="Estimated bytes of scopes that are packed into one task.")] = 16 << 20
    task_scopes: Annotated[int, Meta(ge=1, description="Scopes that are packed into one task at most.")] = 250
    executor_archive: Annotated[
        str | None, Meta(description="URI of a packed environment for executors that lack the lakewarden wheel.")
    ] = None
    s3a: Annotated[
        bool,
        Meta(
            description="Load Hadoop's connector for s3a:// (13 MB of JARs, from Maven Central), and read and write by it the"
            " scopes on S3 that are too large for one task."
        ),
    ] = False
    conf: Annotated[dict[str, str], Meta(description="Further Spark settings, by their own names.")] = {}


class Settings(msgspec.Struct, frozen=True):
    """All settings; pass it, never read it from a global."""

    log: LogSettings = LogSettings()
    flush: FlushSettings = FlushSettings()
    compaction: CompactionSettings = CompactionSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    locks: LockSettings = LockSettings()
    sql: SqlSettings = SqlSettings()
    files: FilesSettings = FilesSettings()
    jobs: JobsSettings = JobsSettings()
    spark: SparkSettings = SparkSettings()


@dataclass(frozen=True)
class Described:
    """One setting as pages and `system.settings` tell it. `bounds` as in `≥ 1, ≤ 10`, or the values it may have."""

    section: str
    key: str
    default: object
    bounds: str
    description: str


_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def described_settings() -> Iterator[Described]:
    for section in msgspec.structs.fields(Settings):
        for field in msgspec.structs.fields(section.type):
            kind, meta = get_args(field.type)
            bounds = [f"{sign} {bound}" for name, sign in _SIGNS.items() if (bound := getattr(meta, name)) is not None]
            choices = [choice for choice in get_args(kind) if isinstance(choice, str)]
            default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            yield Described(section.name, field.name, default, ", ".join(bounds + choices), meta.description)


def load_settings(environ: Mapping[str, str], file: Path = FILE) -> Settings:
    """Raises:
    InvalidArgument: the file is no TOML, a section has no such key, or a value is not of its type or outside its bounds.
    """
    found = _of_file(file)
    for variable, text in environ.items():
        section, _, key = variable.upper().removeprefix(_VARIABLE).lower().partition("__")
        if key and variable.upper().startswith(_VARIABLE):
            found[section] = {**found.get(section, {}), key: _value(variable, text)}
    return _checked(found)


def check_settings(settings: Settings) -> Settings:
    """The same settings: constructors of msgspec take any value.

    Raises:
        InvalidArgument: a value is not of its type or outside its bounds.
    """
    return _checked(msgspec.to_builtins(settings))


def _checked(found: object) -> Settings:
    try:
        return msgspec.convert(found, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"settings: {error}") from error


def _of_file(file: Path) -> dict[str, dict[str, object]]:
    try:
        return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), dict[str, dict[str, object]])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"settings: {file} cannot be read as sections of TOML: {error}") from error


def _value(variable: str, text: str) -> object:
    """Lists and dictionaries are written as JSON."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"settings: {variable} begins like JSON and is none: {error}") from error
