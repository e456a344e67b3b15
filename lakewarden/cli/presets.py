"""The presets of `storage_templates/`: data for `storage create --preset`, never code."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lakewarden.errors import InvalidArgument, NotFound

_PACKAGE = Path(__file__).parent.parent
_DIRECTORIES = (_PACKAGE / "storage_templates", _PACKAGE.parent / "storage_templates")
"""The presets' directories in the wheel and in a checkout."""


@dataclass(frozen=True)
class Preset:
    """The fields of a storage that a preset sets."""

    type: str = "filesystem"
    user_template: str = ""
    shared_template: str = ""


def preset_named(name: str) -> Preset:
    """The preset of that name; without a name, the defaults.

    Raises:
        NotFound: the preset does not exist.
    """
    if not name:
        return Preset()
    if not re.fullmatch(r"[a-z0-9_-]+", name):
        raise InvalidArgument(f"preset {name[:40]!r}: the names are {_names()}")
    for directory in _DIRECTORIES:
        path = directory / f"{name}.toml"
        if path.is_file():
            given = tomllib.loads(path.read_text(encoding="utf-8"))
            return Preset(given["type"], given["user_template"], given["shared_template"])
    raise NotFound(f"there is no preset {name!r}; the presets are {_names()}")


def _names() -> str:
    found = {path.stem for directory in _DIRECTORIES for path in directory.glob("*.toml")}
    return ", ".join(sorted(found))
