"""The source in this process, as a process of Spark has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden.spark.connection import _opened


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    """The next test may have another warehouse in the same place, which a process that goes on would take for this one."""
    yield
    _opened.cache_clear()
