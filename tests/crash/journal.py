"""What a workload began and what was acknowledged, written outside of the disk that is cut."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.crash.steps import Expected, ScopeKey, Step


class Journal:
    """Written by the process that works; what it wrote is there when it is killed."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def begin(self, number: int, step: Step) -> None:
        self._line({"begin": number, "step": asdict(step)})

    def acknowledge(self, number: int, versions: dict[ScopeKey, int]) -> None:
        self._line({"done": number, "versions": [[*scope, version] for scope, version in versions.items()]})

    def fail(self, number: int, why: str) -> None:
        self._line({"failed": number, "why": why})

    def cut(self, event: int) -> None:
        """Right before the cut."""
        self._line({"cut": event})

    def _line(self, record: dict[str, object]) -> None:
        os.write(self._file, json.dumps(record).encode() + b"\n")


@dataclass
class Story:
    """What the journal of one round tells."""

    expected: Expected
    """With all that was acknowledged."""
    open: dict[int, Step] = field(default_factory=dict)
    """Begun and not acknowledged before the cut: whole or absent. A sync that meets the cut may report success for what XFS
    has just thrown away, and no caller of a machine without power hears of it."""
    during: list[str] = field(default_factory=list)
    """Kinds of the steps in whose middle the cut came."""
    done: dict[str, int] = field(default_factory=dict)
    """Acknowledged steps by kind."""
    event: int = 0
    last: int = 0
    wrong: list[str] = field(default_factory=list)
    """Steps that failed while the power was on."""


def read_story(path: Path, before: Expected) -> Story:
    story = Story(before.copy())
    cut = False
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if "begin" in record:
            story.last = number = record["begin"]
            story.open[number] = _step(record["step"])
            story.expected.begin(story.open[number])
        elif "done" in record and not cut:
            step = story.open.pop(record["done"])
            versions = {ScopeKey(table, user): version for table, user, version in record["versions"]}
            story.expected.apply(record["done"], step, versions)
            story.done[step.kind] = story.done.get(step.kind, 0) + 1
        elif "failed" in record and not cut:
            story.wrong.append(f"{story.open[record['failed']]} failed with the power on: {record['why']}")
        elif "cut" in record:
            cut, story.event = True, record["cut"]
            story.during = [step.kind for step in story.open.values()]
    return story


def _step(record: dict[str, object]) -> Step:
    sizes = record.pop("sizes")
    assert isinstance(sizes, dict)
    return Step(**record, sizes={user: {int(key): size for key, size in keys.items()} for user, keys in sizes.items()})  # type: ignore[arg-type]
