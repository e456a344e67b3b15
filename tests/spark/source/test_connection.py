"""What every call of Spark runs in."""

from __future__ import annotations

import sys
import zipfile
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

from lakewarden.spark.connection import called_by_spark


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """On the path, as pyspark puts each of its JARs there, with two modules."""
    path = str(tmp_path / "connector.jar")
    with zipfile.ZipFile(path, "w") as target:
        for number in (1, 2):
            target.writestr(f"from_a_jar_{number}.py", f"VALUE = {number}")
    monkeypatch.syspath_prepend(path)
    return path


def test_archives_are_forgotten_after_a_call_and_imported_from_in_the_next(archive: str) -> None:
    for number in (1, 2):
        with called_by_spark():
            assert number == import_module(f"from_a_jar_{number}").VALUE
            assert archive in sys.path_importer_cache
        assert archive not in sys.path_importer_cache
        invalidate_caches()  # as pyspark does before each task


def test_archives_are_forgotten_after_a_call_that_fails(archive: str) -> None:
    with pytest.raises(ModuleNotFoundError), called_by_spark():
        import_module("from_a_jar_3")
    assert archive not in sys.path_importer_cache
