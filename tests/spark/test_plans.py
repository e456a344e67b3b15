"""A plan of thousands of scopes: made by one process, kept in a file, applied by another."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden import Lakehouse
from lakewarden.maintenance.plans.value import Plan
from tests.fixtures.lakes import NOTES, eventual, make_notes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.disk]

_USERS = [f"u{number:04d}" for number in range(2_000)]
_MOVED = _USERS[::20]


@pytest.mark.night
def test_thousands_of_scopes_go_through_a_file_to_another_process(tmp_path: Path, spark: SparkSession) -> None:
    uri, file = str(tmp_path / "warehouse"), tmp_path / "plan.jsonl"
    with Lakehouse.open(uri, spark=lambda: spark) as lake:
        table = make_notes(lake)
        for key in (1, 2):
            table.write([{"owner": user, "id": key, "text": f"{user} {key}"} for user in _USERS], user_column="owner")
            lake.flush()
        plan = lake.plan("optimize", NOTES)
        assert [line.user for line in plan.scopes] == _USERS
        file.write_text(plan.to_json(), encoding="utf-8")
        table.write([{"owner": user, "id": 1, "text": "moved"} for user in _MOVED], user_column="owner")
        lake.flush()

    program = [str(Path(sys.executable).parent / "lakewarden"), "apply", str(file), "--warehouse", uri, "--format", "json"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 1, done.stderr
    rows, failure = map(json.loads, done.stdout.splitlines())
    assert Counter(row["outcome"] for row in rows) == {"done": len(_USERS) - len(_MOVED), "failed": len(_MOVED)}
    assert [row["user"] for row in rows if row["outcome"] == "failed"] == _MOVED
    assert {row["error"]["code"] for row in rows if row["error"]} == {"CONFLICT"}
    assert failure["error"]["code"] == "CONFLICT"
    assert {row["plan_id"] for row in rows} == {plan.plan_id}
    with Lakehouse.open(uri) as lake:
        assert eventual(lake.table(NOTES), _MOVED[1]) == {1: "moved", 2: f"{_MOVED[1]} 2"}
        assert eventual(lake.table(NOTES), _USERS[1]) == {1: f"{_USERS[1]} 1", 2: f"{_USERS[1]} 2"}
    assert Plan.from_json(file.read_text(encoding="utf-8")) == plan
