"""The wheel as a stranger has it: without extras, in an empty environment, outside of the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parent.parent
_OWN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Variables that would lead an environment back to this one."""

pytestmark = pytest.mark.slow

Run = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel and what it says that it needs."""
    uv = shutil.which("uv") or str(_ROOT / ".cache" / "uv" / "bin" / "uv")
    home = tmp_path_factory.mktemp("wheel")
    _told([uv, "build", "--quiet", "--wheel", "--out-dir", str(home), str(_ROOT)], home)
    _told([uv, "venv", "--quiet", "--python", sys.executable, str(home / "env")], home)
    (wheel,) = home.glob("lakewarden-*.whl")
    _told([uv, "pip", "install", "--quiet", "--python", str(home / "env" / "bin" / "python"), str(wheel)], home)
    return home / "env"


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Runs `lakewarden` with these arguments and settings, and returns the JSON of each line."""

    def run(*arguments: str, **settings: str) -> list[Any]:
        command = [str(installed / "bin" / "lakewarden"), "--warehouse", "lake", "--format", "json", *arguments]
        return [json.loads(line) for line in _told(command, tmp_path, **settings).splitlines()]

    return run


def _told(command: list[str], home: Path, **settings: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in _OWN}
    done = subprocess.run(command, cwd=home, env=environment | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


_NOTES = "CREATE NAMESPACE app; CREATE USER TABLE app.notes (id BIGINT PRIMARY KEY, body TEXT)"


def test_it_queries_writes_flushes_and_reads(run: Run) -> None:
    assert run("sql", "SELECT 1 AS one") == [{"columns": ["one"], "rows": [{"one": 1}]}]
    run("sql", f"{_NOTES}; INSERT INTO app.notes VALUES (1, 'cold')")
    assert [report["outcome"] for report in run("flush", "app.notes")[0]] == ["done"]
    run("sql", "INSERT INTO app.notes VALUES (2, 'hot')")
    assert run("sql", "SELECT * FROM app.notes ORDER BY id")[0]["rows"] == [{"id": 1, "body": "cold"}, {"id": 2, "body": "hot"}]
    assert all(found["passed"] for found in run("check")[0])


_WRITE = """
import sys
from lakewarden import Lakehouse

with Lakehouse.open(sys.argv[1]) as lake:
    rows = [{"id": 1, "body": str(number), "tenant": f"u{number}"} for number in range(100)]
    lake.table("app.notes").write(rows, user_column="tenant")
"""


@pytest.mark.spark
def test_it_flushes_a_hundred_scopes_on_spark(run: Run, installed: Path, tmp_path: Path) -> None:
    run("sql", _NOTES)
    _told([str(installed / "bin" / "python"), "-c", _WRITE, str(tmp_path / "lake")], tmp_path)
    (reports,) = run("flush", "app.notes", LAKEWARDEN_FLUSH__IN_PROCESS_BELOW="1")
    assert [report["outcome"] for report in reports] == ["done"] * 100
    assert run("sql", "--user", "u7", "--role", "user", "SELECT * FROM app.notes")[0]["rows"] == [{"id": 1, "body": "7"}]
