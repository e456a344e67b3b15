"""Lakewarden keeps many small Delta Lake tables healthy: one per tenant and table."""

from lakewarden.catalog.model import Column
from lakewarden.lakehouse import Lakehouse
from lakewarden.rows.files import Upload
from lakewarden.settings import Settings

__all__ = ["Column", "Lakehouse", "Settings", "Upload"]
__version__ = "0.1.0"
