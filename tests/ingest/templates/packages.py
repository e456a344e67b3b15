"""A package of templates, as another project would install it beside Lakewarden."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest


def install(patch: pytest.MonkeyPatch, directory: Path, templates: Mapping[str, str]) -> None:
    """Makes these entry points, by name, known to this process and to those that it starts."""
    facts = directory / "their_templates-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Name: their-templates\nVersion: 1\n")
    lines = (f"{name} = {value}" for name, value in templates.items())
    (facts / "entry_points.txt").write_text("\n".join(["[lakewarden.templates]", *lines]))
    patch.syspath_prepend(str(directory))
