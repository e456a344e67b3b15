"""Says of one table what is there, what is damaged, and what each operation would do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import cast

from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import MaintenanceSettings, PricesSettings
from lakewarden.base.threads import COMPUTING
from lakewarden.delta.examination.examination import Examination, examine
from lakewarden.delta.examination.kept_log import KeptLog
from lakewarden.delta.examination.kinds import DamageKind
from lakewarden.delta.features import in_use, unknown_features
from lakewarden.errors import LakewardenError, Unsupported
from lakewarden.maintenance.survey.estimate import SurveyedTable, all_refused, estimates
from lakewarden.maintenance.survey.listing import MOST_OBJECTS, FoundTable
from lakewarden.maintenance.survey.table_survey import Damage, PlaceClass, TableSurvey
from lakewarden.storage.location import local_path


@dataclass(frozen=True)
class SurveyOptions:
    """How a survey looks, and what it counts with."""

    prices: PricesSettings = field(default_factory=PricesSettings)
    deep: bool = False
    """Whether the footers of data files and the deletion vectors are read, too."""
    target_size: int = MaintenanceSettings().target_file_size
    """Bytes of a file that an operation would write."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def survey_table(location: Location, found: FoundTable, options: SurveyOptions, kept: KeptLog | None = None) -> TableSurvey:
    """Looks at one table. What keeps it from being read is said in `error`. `kept`: of its log, as of `examine`."""
    try:
        if found.left_out:
            most = f"{MOST_OBJECTS:,} of all tables that are looked at together are held in memory"
            raise Unsupported(f"{location.uri} has {found.left_out:,} objects: {most}")
        if found.refused:
            raise Unsupported(f"the log of {location.uri} cannot be read: {found.refused}")
        # reading a disk does not let go of it
        with COMPUTING.held() if local_path(location.uri) is None else nullcontext():
            seen = examine(location, found.listing, found.store, deep=options.deep, kept=kept)
            return _survey(location, found, seen, options)
    except LakewardenError as error:
        return _unreadable(location, found, f"{error.code}: {error.message}")
    except Exception as error:  # noqa: BLE001  # a log that any writer wrote must not end the survey of all other tables
        return _unreadable(location, found, f"INTERNAL: {type(error).__name__}: {error}")


def _unreadable(location: Location, found: FoundTable, error: str) -> TableSurvey:
    count = len(found.etags)
    size = None if found.left_out else sum(found.listing.sizes[:count])
    return TableSurvey(
        location.uri,
        "unreadable",
        log_bytes=size,
        log_objects=None if found.left_out else count,
        error=error,
        operations=all_refused("it could not be read"),
    )


def _survey(location: Location, found: FoundTable, seen: Examination, options: SurveyOptions) -> TableSurvey:
    figures, state = seen.figures, seen.state
    damage = tuple(Damage(cast("DamageKind", note.kind), note.detail, note.versions) for note in seen.notes)
    place = _place(location, seen, options)
    operations, features = all_refused(seen.error or "no version of it opens"), tuple[str, ...]()
    if state is not None:
        features = (*(feature.name for feature in in_use(state)), *unknown_features(state.protocol))
        on_disk = local_path(location.uri) is not None
        # whatever is neither in the log, live, nor another's
        dead = max(0, len(found.listing.keys) - len(found.etags) - (figures.files or 0) - (figures.alien_files or 0))
        keys = state.files.column("key").to_pylist() if any(each.kind == "hollow" for each in damage) else None
        lost = keys is not None and {*found.listing.keys}.isdisjoint(keys)
        facts = SurveyedTable(state, damage, place, len(found.listing.keys), dead, on_disk, options.target_size, lost)
        operations = estimates(facts, options.prices)
    return TableSurvey(
        location.uri,
        seen.verdict,
        None if state is None else state.metadata.id,
        None if state is None else state.version,
        damage,
        features,
        place,
        seen.error,
        operations,
        **vars(figures),
    )


def _place(location: Location, seen: Examination, options: SurveyOptions) -> PlaceClass:
    if seen.verdict == "catalog":
        return "catalog"
    engines = ("Apache-Spark/",) if seen.read == "checksum" else seen.figures.writers
    return place_class(location.uri, engines, options.environment)


# How the writers of a place keep each other's commits apart, as far as a log and the kind of its store tell. Nothing is tried: a
# look that wrote would be no survey. Sources: Delta's documentation, "Storage configuration" (its default on S3 is for a single
# driver); the documentation of delta-rs, "Writing to S3".

LOCKS = "AWS_S3_LOCKING_PROVIDER"
"""Delta-rs's own setting. In a log there is no trace of a lock."""

_CLASSES: Mapping[str, PlaceClass] = {
    "databricks-runtime/": "commit-service",
    **dict.fromkeys(("apache-spark/", "apache-flink/"), "overwrites"),
    **dict.fromkeys(("delta-rs", "deltalake", "lakewarden"), "conditional"),
}


def place_class(uri: str, engines: Iterable[str], environment: Mapping[str, str]) -> PlaceClass:
    """The class of a table's place, unless a catalog decides on its commits.

    Args:
        uri: of the table, in its canonical form.
        engines: the `engineInfo` of the commits that are known.
    """
    if not uri.startswith("s3://"):
        return "conditional"  # a disk, Google and Azure create a file only where there is none, for every writer
    classes = {_class_of(engine) for engine in engines}
    for worst in ("commit-service", "overwrites", "unknown"):
        if worst in classes:
            return "dynamodb" if environment.get(LOCKS, "").lower() == "dynamodb" and worst != "commit-service" else worst
    return "conditional" if classes else "unknown"


def _class_of(engine: str) -> PlaceClass:
    name = engine.strip().lower()
    return next((found for begin, found in _CLASSES.items() if name.startswith(begin)), "unknown")
