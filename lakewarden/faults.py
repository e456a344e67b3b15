"""Places between two effects where a test may stop a process for good."""

from __future__ import annotations

from collections.abc import Callable

Reach = Callable[[str], None]
"""Called with a step's name when the step is done; production does nothing there."""


def no_faults(step: str) -> None:
    """Nothing happens here."""
