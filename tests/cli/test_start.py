"""What a command brings into memory: the start of `lakewarden sql` is as quick as what it leaves alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_RUN = """
import atexit, sys
from lakewarden.cli import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
main()
"""

_HEAVY = {"asyncio", "http", "argon2", "boto3", "botocore", "dagster", "delta", "deltalake", "great_expectations", "pandas"}
_HEAVY |= {"polars", "psycopg2", "py4j", "pydantic", "pyspark", "rich"}


def _loaded(*arguments: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.slow
def test_a_query_without_tables_leaves_what_it_does_not_need_on_the_disk(tmp_path: Path) -> None:
    loaded = _loaded("--warehouse", str(tmp_path / "lake"), "--format", "json", "sql", "SELECT 1")
    assert {"duckdb", "sqlglot"} <= loaded
    assert not _HEAVY & loaded
    assert not {name for name in loaded if name.startswith(("lakewarden.maintenance.flush.run", "lakewarden.delta.table"))}


@pytest.mark.slow
def test_help_reads_no_rows(tmp_path: Path) -> None:
    assert not (_HEAVY - {"rich"} | {"duckdb", "sqlglot"}) & _loaded("--warehouse", str(tmp_path / "lake"), "--help")
