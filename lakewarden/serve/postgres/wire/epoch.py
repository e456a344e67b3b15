"""PostgreSQL counts days and moments from 2000-01-01, and has an infinity at each end of its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from lakewarden.base.any_year import DAY_MICROS

EPOCH_DAYS = (date(2000, 1, 1) - date(1970, 1, 1)).days
EPOCH_MICROS = EPOCH_DAYS * DAY_MICROS

INFINITE_DAYS: Mapping[int, str] = {(1 << 31) - 1: "infinity", -(1 << 31): "-infinity"}
"""Of the number of a date, its text."""
INFINITE_MICROS: Mapping[int, str] = {(1 << 63) - 1: "infinity", -(1 << 63): "-infinity"}
"""Likewise of a timestamp."""
