"""Turns on a feature of Delta on a table of ours, as another writer does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Feature:
    """`properties` are the table's, `column` is metadata of its column `n`. `reads`: it asks something of readers, too."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    column: Mapping[str, Any] = field(default_factory=dict)
    reads: bool = False
    legacy: int = 0
    """The version of writers that asks for it without a list of features; 0 for a list."""

    @property
    def protocol(self) -> Mapping[str, object]:
        if self.legacy:
            return {"minReaderVersion": 1, "minWriterVersion": self.legacy}
        readers = {"minReaderVersion": 3, "readerFeatures": [self.name]} if self.reads else {"minReaderVersion": 1}
        return {**readers, "minWriterVersion": 7, "writerFeatures": [self.name]}


def turn_on(table: Path, feature: Feature) -> None:
    """Commits it."""
    commits = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    metadata = [action["metaData"] for action in actions if "metaData" in action][-1]
    metadata["configuration"] |= feature.properties
    schema = json.loads(metadata["schemaString"])
    for each in schema["fields"]:
        each["metadata"] |= feature.column if each["name"] == "n" else {}
    metadata["schemaString"] = json.dumps(schema)
    commit(table, {"protocol": feature.protocol}, {"metaData": metadata})


def commit(table: Path, *actions: Mapping[str, object]) -> None:
    number = len([*(table / "_delta_log").glob("*.json")])
    info = {"commitInfo": {"timestamp": 1, "operation": "SET TBLPROPERTIES"}}
    (table / "_delta_log" / f"{number:020d}.json").write_text("\n".join(map(json.dumps, [info, *actions])))


def constraint(text: str) -> Feature:
    return Feature("checkConstraints", {"delta.constraints.c": text})
