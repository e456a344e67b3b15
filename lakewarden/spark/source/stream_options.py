"""The options of `readStream`, and how a source learns that it is read as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps

from pyspark.sql.streaming.readwriter import DataStreamReader

from lakewarden.base.scope import TableName
from lakewarden.errors import InvalidArgument
from lakewarden.spark.source.options import check_known, table_of, users_of
from lakewarden.tables.changes.start import Start

_STREAM = ("table", "user", "users", "starting_from", "max_rows")

_MARK = "lakewarden_stream"
"""Set by `mark_streams`, not by callers."""


@dataclass(frozen=True)
class StreamOptions:
    """`users` is None for all of them; `start`, for where streams of the table begin. `max_rows` bounds a batch, as
    `ChangeFeed.upto` does."""

    table: TableName
    users: tuple[str, ...] | None
    start: Start | None
    max_rows: int | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        """Raises:
        InvalidArgument: the table is missing, or an option is unknown or has a bad value.
        """
        check_known({name: value for name, value in options.items() if name.lower() != _MARK}, _STREAM)
        rows = options.get("max_rows")
        if rows is not None and not (rows.isdecimal() and int(rows)):
            raise InvalidArgument(f"max_rows {rows!r}: it is a whole number from 1")
        start = options.get("starting_from")
        return cls(
            table_of(options),
            users_of(options),
            None if start is None else Start.parse(start),
            None if rows is None else int(rows),
        )


def is_stream(options: Mapping[str, str]) -> bool:
    """Whether changes are read."""
    return _MARK in options or "starting_from" in options


def mark_streams(source: str) -> None:
    """From now on `spark.readStream.format(source)` says so in its options.

    Spark 4.1 asks a Python source for its columns without saying whether they are those of a read or of a stream, and a stream
    has one more. Idempotent.
    """
    plain = DataStreamReader.format
    if getattr(plain, _MARK, False):
        return

    @wraps(plain)
    def marked(self: DataStreamReader, name: str) -> DataStreamReader:
        found = plain(self, name)
        return found.option(_MARK, "true") if name.lower() == source else found

    setattr(marked, _MARK, True)
    DataStreamReader.format = marked  # type: ignore[method-assign, assignment]
