"""The page of a million scopes of which nothing was kept before. Its time is in `benchmarks million`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import quiet
from benchmarks.measuring.memory import peak_bytes
from lakewarden import Lakehouse
from lakewarden.client.fleet_page import fleet_page

pytestmark = [pytest.mark.disk, pytest.mark.slow, pytest.mark.night]

SCOPES = 1_000_000


def look(uri: str) -> None:
    """Prints the most bytes of memory of the page, its verdict and its size."""
    with Lakehouse.open(uri) as lake:
        page = fleet_page(fleet := lake.fleet())
        sys.stdout.write(json.dumps([peak_bytes(), fleet.verdict, len(page.encode())]))


def test_the_page_of_a_million_scopes_is_bounded(tmp_path: Path) -> None:
    uri = str(tmp_path / "million")
    quiet.make(uri, SCOPES)
    code = f"from tests.client.fleet.test_million import look; look({uri!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    peak, verdict, size = json.loads(done.stdout)
    assert verdict == "1,000,000 scopes: all well"
    assert peak < 600_000_000
    assert size < 2_000_000
