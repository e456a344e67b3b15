"""One table for its callers: writes become changes of the log, reads combine the log and the files."""

from lakewarden.tables.client.client import TableClient, WriteMode
from lakewarden.tables.client.file_columns import FileMode

__all__ = ["FileMode", "TableClient", "WriteMode"]
