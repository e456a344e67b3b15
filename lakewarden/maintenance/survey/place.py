"""How the writers of a table keep each other's commits apart, as far as its log and the kind of its store tell.

Nothing is tried: a look that wrote would be no survey. Sources: Delta's documentation, "Storage configuration" (its default on S3
is for a single driver); the documentation of delta-rs, "Writing to S3".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakewarden.maintenance.survey.table_survey import PlaceClass

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
