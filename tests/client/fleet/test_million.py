"""The page of a million scopes of which nothing was kept before: what it takes, beside the keyed hashes of their users alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import data, quiet
from benchmarks.measuring.memory import peak_bytes
from lakewarden import Lakehouse
from lakewarden.client.fleet_page import fleet_page

pytestmark = [pytest.mark.disk, pytest.mark.slow, pytest.mark.night]

SCOPES = 1_000_000


def look(uri: str) -> None:
    """Prints the processor time of the hashes and of the page, the most bytes of memory, and the page's verdict and size."""
    with Lakehouse.open(uri) as lake:
        began = time.process_time()
        page = fleet_page(fleet := lake.fleet())
        took, peak, users = time.process_time() - began, peak_bytes(), data.users(SCOPES)
        began = time.process_time()
        lake.warehouse.erasures.marks(users)
        sys.stdout.write(json.dumps([time.process_time() - began, took, peak, fleet.verdict, len(page.encode())]))


def test_a_million_scopes_are_looked_at_in_twice_the_time_of_their_hashes(tmp_path: Path) -> None:
    uri = str(tmp_path / "million")
    quiet.make(uri, SCOPES)
    code = f"from tests.client.fleet.test_million import look; look({uri!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    hashed, took, peak, verdict, size = json.loads(done.stdout)
    assert verdict == "1,000,000 scopes: all well"
    assert took < 2 * hashed
    assert peak < 600_000_000
    assert size < 2_000_000
