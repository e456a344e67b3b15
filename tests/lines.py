"""Specifications as lines, each with whether it is true and the test that shows it: what the tables of docs/reference share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

TESTS = Path(__file__).parent

Outcome = Literal["true", "differs", "not yet"]


@dataclass(frozen=True)
class Line:
    number: int
    says: str
    outcome: Outcome = "true"
    reason: str = ""
    """Why it is not true, or how it differs; or what to know about it."""


Sections = Mapping[str, Sequence[Line]]


def tests_of(place: Path, prefix: str) -> dict[int, str]:
    """The names of the tests in a directory or a module, `test_<prefix>_<number>_…`, by the line that names them."""
    form = re.compile(rf"^def (test_{prefix}_(\d{{3}})_\w+)\(", re.MULTILINE)
    paths = sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
    texts = (path.read_text() for path in paths)
    return {int(number): name for text in texts for name, number in form.findall(text)}
