"""The presets are complete, hold no credentials, and their templates are ones that the library takes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from lakewarden.catalog.model import StorageType
from lakewarden.storage.paths import check_template

_PRESETS = sorted((Path(__file__).parent.parent.parent / "storage_templates").glob("*.toml"))
_FIELDS = {"type", "base", "user_template", "shared_template", "environment"}


def test_there_is_one_for_each_kind_of_store() -> None:
    assert {path.stem for path in _PRESETS} == {"local", "minio", "s3", "azure", "gcs"}


@pytest.mark.parametrize("path", _PRESETS, ids=lambda path: path.stem)
def test_preset(path: Path) -> None:
    preset = tomllib.loads(path.read_text())
    assert set(preset) == _FIELDS
    assert preset["type"] in get_args(StorageType)
    assert check_template("USER", preset["user_template"]) == preset["user_template"]
    assert check_template("SHARED", preset["shared_template"]) == preset["shared_template"]
    assert all(name == name.upper() and "=" not in name for name in preset["environment"])
