"""Statements that take memory or time out of proportion: each ends within its bounds, and this process hardly notices."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lakewarden.sql.query_engine.workers.messages import overall
from tests.sql.query_engine.heavy import HEAVY

_MEMORY = 64 << 20
_RESULT = 4 << 20
_OVERSHOOT = 64 << 20
"""What this process may take beyond a result: its own copies of a text and its tree."""
_PLAIN = 256 << 20
"""More than a worker's interpreter, Arrow and DuckDB take before the first query."""

_RUN = """
import json, resource, sys, threading
from concurrent.futures import ThreadPoolExecutor
from benchmarks.measuring.memory import peak_bytes
from lakewarden import Lakehouse, Settings
from lakewarden.errors import LakewardenError
from lakewarden.base.setting_sections import SqlSettings
from tests.sql.query_engine.heavy import HEAVY

memory, result, place, names = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
settings = SqlSettings(memory_bytes=memory, result_bytes=result, timeout_seconds=1.0, threads=1, workers=3)
outcomes = {}
with Lakehouse.open(place, settings=Settings(sql=settings)) as lake:
    lake.session(user="nobody", role="anonymous").sql("SELECT 1")
    before = peak_bytes()

    def run(name):
        try:
            lake.session(user="nobody", role="anonymous").sql(HEAVY[name])
            outcomes[name] = ["a result", ""]
        except LakewardenError as error:
            outcomes[name] = [error.code, error.message]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, names))
    after = peak_bytes()
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"outcomes": outcomes, "grown": after - before, "child": children << 10}))
"""


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.night)])
def test_each_ends_within_its_bounds_and_costs_this_process_nothing(tmp_path_factory: pytest.TempPathFactory, every: int) -> None:
    names = [*HEAVY][::every]
    place = str(tmp_path_factory.mktemp("heavy") / "lake")
    command = [sys.executable, "-c", _RUN, str(_MEMORY), str(_RESULT), place, json.dumps(names)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = json.loads(ran.stdout)
    outcomes = found["outcomes"]
    assert len(HEAVY) >= 40
    assert len(outcomes) == len(names)
    stopped = {name for name, (code, message) in outcomes.items() if code == "UNSUPPORTED" and "(sql." in message}
    answered = {name for name, (code, _) in outcomes.items() if code == "a result"}
    assert stopped | answered == set(names), {name: outcomes[name] for name in set(names) - stopped - answered}
    assert len(stopped) > 0.8 * len(names), answered
    assert found["grown"] <= 2 * _RESULT + _OVERSHOOT
    assert found["child"] <= overall(_MEMORY) + _PLAIN
