"""Measures the seconds of a call; medians, and figures as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from statistics import median, quantiles
from time import perf_counter
from typing import ParamSpec

P = ParamSpec("P")


def seconds(work: Callable[P, object], *given: P.args, **named: P.kwargs) -> float:
    """How long the call takes."""
    start = perf_counter()
    work(*given, **named)
    return perf_counter() - start


def quiet_seconds(work: Callable[P, object], *given: P.args, **named: P.kwargs) -> float:
    """As `seconds`, after a sync: the call does not pay for dirty pages of earlier work."""
    os.sync()
    return seconds(work, *given, **named)


def rounds_within(most: int, enough: float) -> Iterator[int]:
    """Numbers of rounds: at least one, and none that begins after so many seconds, so that a busy machine ends as well."""
    begun = perf_counter()
    for number in range(most):
        if number and perf_counter() - begun > enough:
            return
        yield number


def percentile(values: Sequence[float], percent: int) -> float:
    return values[0] if len(values) < 2 else quantiles(values, n=100, method="inclusive")[percent - 1]


def spread(values: Sequence[float]) -> str:
    """The median, with the smallest and the largest where there are several."""
    shown = f"{median(values):.2f} s"
    return shown if len(values) == 1 else f"{shown} ({min(values):.2f} to {max(values):.2f})"


def times(of: float, ours: float) -> str:
    return f"{of / ours:.1f}"
