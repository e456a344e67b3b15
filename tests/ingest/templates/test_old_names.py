"""Templates of others go on importing what they imported from `lakewarden.pipelines.templates`."""

from __future__ import annotations

from importlib import import_module

import pytest

from lakewarden.ingest.templates import object_file, template


@pytest.mark.parametrize(
    ("name", "module"), [("object_file", object_file), ("template", template)], ids=["object_file", "template"]
)
def test_an_old_name_is_the_same_module(name: str, module: object) -> None:
    """So an old template's class is a subclass of the one that is looked for."""
    assert import_module(f"lakewarden.pipelines.templates.{name}") is module
