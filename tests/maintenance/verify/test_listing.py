"""A look that was not possible is no look."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden.base.connection import Location
from lakewarden.errors import StorageUnavailable
from lakewarden.maintenance.verify.listing import everything


def test_every_file_is_listed_hidden_ones_too(tmp_path: Path) -> None:
    for name in ("a/b.parquet", ".tmp/c", "_x/.d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert sorted(found.key for found in everything(Location(str(tmp_path)))) == [".tmp/c", "_x/.d", "a/b.parquet"]
    assert list(everything(Location(str(tmp_path / "nothing")))) == []


def test_a_directory_that_cannot_be_read_was_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = os.walk

    def refused(top: Any, **rest: Any) -> Iterator[Any]:
        rest["onerror"](PermissionError(13, "Permission denied", str(top)))
        return walk(top)

    monkeypatch.setattr(os, "walk", refused)
    with pytest.raises(StorageUnavailable, match="what is there was not searched"):
        list(everything(Location(str(tmp_path))))
