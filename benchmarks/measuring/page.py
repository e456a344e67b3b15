"""docs/performance.md: every benchmark rewrites only the section between its own two marks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from benchmarks.measuring.machine import machine


@dataclass(frozen=True)
class Table:
    """Measured figures as text, with a sentence above that says what exactly was done."""

    said: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return f"{self.said}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True)
class Section:
    """What one benchmark found. Built before it starts, so that the load is the machine's and not its own."""

    name: str
    scale: str
    tables: list[Table] = field(default_factory=list)
    measured_on: str = field(default_factory=machine)

    def text(self, now: datetime) -> str:
        head = f"*{now:%Y-%m-%d}, scale `{self.scale}`, {self.measured_on}.*"
        return "\n\n".join([head, *map(str, self.tables)])


def rewrite(page: Path, section: Section, now: datetime) -> None:
    """Replaces the section's text in the page; a page without its marks gets it at the end."""
    begin, end = f"<!-- begin {section.name} -->", f"<!-- end {section.name} -->"
    fresh = f"{begin}\n\n{section.text(now)}\n\n{end}"
    text = page.read_text(encoding="utf-8") if page.exists() else "# Performance\n"
    marked = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if marked.search(text):
        text = marked.sub(lambda _: fresh, text)
    else:
        text = f"{text.rstrip()}\n\n## {section.name.capitalize()}\n\n{fresh}\n"
    page.write_text(text, encoding="utf-8")
