"""A table as people use it: what they give becomes changes of the log, what they ask for is read from log and files."""

from lakewarden.table.client import TableClient, WriteMode
from lakewarden.table.filed import FileMode

__all__ = ["FileMode", "TableClient", "WriteMode"]
