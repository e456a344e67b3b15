"""Computes the ratio of two times from seconds that were measured in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import mean, stdev

BOUND = 1.05
"""A regression is a ratio whose interval is above it."""

_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110)
"""Student's t of 97.5 %, by degrees of freedom from 1 on; the last serves all above."""


@dataclass(frozen=True)
class Ratio:
    """New to old: the geometric mean of the pairs' ratios, and the interval that holds it with 95 %."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        if self.low > BOUND:
            return "slower"
        return "within the bound" if self.high <= BOUND else "not shown"

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(old: Sequence[float], new: Sequence[float]) -> Ratio:
    """Of seconds in pairs, two at least. By Student's t on the logarithms, since ratios multiply."""
    logs = [log(after / before) for before, after in zip(old, new, strict=True)]
    centre, error = mean(logs), stdev(logs) / sqrt(len(logs))
    around = _T[min(len(logs) - 1, len(_T)) - 1] * error
    return Ratio(exp(centre), exp(centre - around), exp(centre + around))
