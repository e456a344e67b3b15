"""The one place that says what is understood and not there yet."""

from __future__ import annotations

from lakewarden.errors import Unsupported


def later(what: str) -> Unsupported:
    return Unsupported(f"{what}: understood, and not there yet")
