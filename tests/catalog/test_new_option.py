"""A new table option is its row in `catalog/options.py` and its field: every door takes it, keeps it and shows it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent.parent

_FIELD = """    compaction_ratio: float | None = None
"""
_ROW = """        "STORAGE_ID": TableOption("""

_USE = """
import json
import sys

from lakewarden import Column, Lakehouse
from lakewarden.errors import InvalidArgument


def shown(lake, table):
    (found,) = lake.sql(f"SELECT options FROM system.tables WHERE table_name = '{table}'", user="root", role="system")
    return json.loads(found.to_pylist()[0]["options"]).get("OWNER_TEAM")


with Lakehouse.open(sys.argv[1]) as lake:
    lake.create_namespace("app")
    lake.sql("CREATE USER TABLE app.s (id BIGINT PRIMARY KEY) WITH (OWNER_TEAM = 'Blue')", user="root", role="system")
    lake.create_table("app.p", type="SHARED", columns=[Column("id", "BIGINT")], options={"owner_team": "Red"})
    print(shown(lake, "s"), shown(lake, "p"))
    lake.sql("ALTER TABLE app.s SET TBLPROPERTIES (OWNER_TEAM = 'green')", user="root", role="system")
    try:
        lake.create_table("app.n", type="STREAM", columns=[Column("id", "BIGINT")], options={"OWNER_TEAM": "x", "TTL_SECONDS": 9})
    except InvalidArgument as error:
        print(error)
with Lakehouse.open(sys.argv[1]) as lake:
    print(shown(lake, "s"), shown(lake, "p"))
"""


@pytest.mark.slow
@pytest.mark.disk
def test_a_new_option_is_two_files(tmp_path: Path) -> None:
    copy = tmp_path / "lakewarden"
    shutil.copytree(_ROOT / "lakewarden", copy)  # with what is compiled, which counts for each file that stays as it is
    _insert(copy / "catalog" / "model.py", _FIELD, "    owner_team: str | None = None\n")
    row = '"OWNER_TEAM": TableOption("owner_team", _OF_FILES, lambda _option, text: text.lower(), since=3),\n'
    _insert(copy / "catalog" / "options.py", _ROW, f"        {row}")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", _USE, str(tmp_path / "warehouse")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    made, refused, reopened = done.stdout.splitlines()
    assert (made, reopened) == ("blue red", "green red")
    assert "OWNER_TEAM is only supported for USER and SHARED tables" in refused


def _insert(path: Path, before: str, text: str) -> None:
    code = path.read_text()
    assert code.count(before) == 1
    path.write_text(code.replace(before, text + before))
