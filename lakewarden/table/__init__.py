"""One table for its callers: writes become changes of the log, reads combine the log and the files."""

from lakewarden.table.client import TableClient, WriteMode
from lakewarden.table.filed import FileMode

__all__ = ["FileMode", "TableClient", "WriteMode"]
