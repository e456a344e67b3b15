"""The code location as Dagster loads it: fresh, over a warehouse that the environment names."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg
import pytest

from lakewarden.dagster import build_definitions

Load = Callable[[str], dg.Definitions]


@pytest.fixture
def load() -> Load:
    """Builds the definitions anew; they depend on the warehouse of that moment."""
    return build_definitions
