"""What `dg scaffold` writes for the component."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
import yaml

from lakewarden.dagster.component import ScaffoldParameters, WarehouseScaffolder
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

_SHIPPED = Path(__file__).parents[2] / "lakewarden" / "dagster" / "dagster.yaml"


def scaffold(project: Path, name: str) -> None:
    request = dg.ScaffoldRequest(
        type_name="lakewarden.dagster.WarehouseComponent",
        target_path=project / "defs" / name,
        scaffold_format="yaml",
        project_root=project,
        params=ScaffoldParameters(warehouse="s3://lake/eu", key_prefix=None),
    )
    request.target_path.mkdir(parents=True)
    WarehouseScaffolder().scaffold(request)


def test_a_project_gets_the_settings_of_its_queue_and_launcher_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scaffold(tmp_path, "eu")
    written = (tmp_path / "dagster.yaml").read_text()
    shipped = yaml.safe_load(_SHIPPED.read_text())
    assert yaml.safe_load(written) == {name: value for name, value in shipped.items() if name != "storage"}
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert type(instance.run_launcher).__name__ == "WatchingRunLauncher"
        assert instance.run_monitoring_enabled
        limits = instance.get_concurrency_config().run_queue_config
        assert limits is not None
        assert len(limits.tag_concurrency_limits) == len(shipped["concurrency"]["runs"]["tag_concurrency_limits"])
    (tmp_path / "dagster.yaml").write_text("telemetry: { enabled: false }\n")
    scaffold(tmp_path, "us")
    assert (tmp_path / "dagster.yaml").read_text() == "telemetry: { enabled: false }\n"
    assert "dagster.yaml stays as it is" in capsys.readouterr().out
