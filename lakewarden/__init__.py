"""Lakewarden keeps many small Delta Lake tables healthy: one per tenant and table."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from lakewarden.base import VERSION

if TYPE_CHECKING:
    from lakewarden.base.settings import Settings
    from lakewarden.catalog.model import Column
    from lakewarden.client import Lakehouse
    from lakewarden.maintenance.survey.run import survey
    from lakewarden.tables.rows.files import Upload

__all__ = ["Column", "Lakehouse", "Settings", "Upload", "survey"]
__version__ = VERSION

_MODULES = {
    "Column": "lakewarden.catalog.model",
    "Lakehouse": "lakewarden.client",
    "Settings": "lakewarden.base.settings",
    "Upload": "lakewarden.tables.rows.files",
    "survey": "lakewarden.maintenance.survey.run",
}


def __getattr__(name: str) -> object:
    """Names of `__all__` when they are first used: Spark's tasks and the command line need few of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
