"""Where a door does not store a sample as it was given, and why. All else is stored as it was given: `test_values` tries each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NotStored:
    """Samples that a door refuses; or, where it has no form for them, stores as NULL."""

    door: str
    type: str
    labels: tuple[str, ...]
    reason: str
    null: bool = False


_NO_TEXT = "a text in a JSON column is the text of a JSON value, and an empty one is none"
_JSON_NULL = "JSON's null is SQL's"

EXCEPTIONS: tuple[NotStored, ...] = (
    *(
        NotStored("Python: pandas", kind, ("NaN",), "pandas has NaN for what is missing", null=True)
        for kind in ("FLOAT", "DOUBLE")
    ),
    NotStored("PostgreSQL: parameter in text", "TEXT", ("NUL",), "PostgreSQL's texts have no NUL, and its clients send none"),
    *(NotStored(door, "JSON", ("empty text",), _NO_TEXT) for door in ("load: JSON", "Kafka: json", "Kafka: debezium-json")),
    *(
        NotStored(door, "JSON", ("null",), _JSON_NULL, null=True)
        for door in ("K3: insert over HTTP", "load: JSON", "Kafka: json", "Kafka: debezium-json", "upload: JSON")
    ),
)


def refused(door: str) -> dict[str, list[str]]:
    """The labels of the samples that a door refuses, by type."""
    return {each.type: list(each.labels) for each in EXCEPTIONS if each.door == door and not each.null}


def is_null(door: str, kind: str, label: str) -> bool:
    return any(each.null and (each.door, each.type) == (door, kind) and label in each.labels for each in EXCEPTIONS)
