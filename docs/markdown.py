"""Writes the pages of docs/reference/ as Markdown: titles, tables, values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    title: str
    source: str
    """Where what it says stands."""
    lines: Callable[[], Iterator[str]]

    def text(self) -> str:
        note = f"<!-- Written from {self.source} by `make docs`; edit there. -->"
        return "\n".join([f"# {self.title}", "", note, "", *self.lines(), ""])


def table(*names: str) -> Iterator[str]:
    yield row(*names)
    yield row(*("---" for _ in names))


def row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0:
        return f"`{value}` ({value >> 20} MiB)"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"
