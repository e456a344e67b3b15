"""The settings that the project ships for Dagster are settings that Dagster takes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent


@pytest.mark.dagster
def test_embedded_storage_lies_in_dagster_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster import DagsterInstance  # heavy, and only here

    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    shutil.copy(_ROOT / "lakewarden" / "dagster" / "dagster.yaml", tmp_path)
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        instance.add_dynamic_partitions("users", ["u_1"])
        assert instance.get_dynamic_partitions("users") == ["u_1"]
        assert instance.run_monitoring_enabled
    assert any(tmp_path.rglob("*.db"))
