"""The options of a read and of a write, which Spark passes as text and whose names have no case."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps

from pyspark.sql.streaming.readwriter import DataStreamReader

from lakewarden.base.scope import TableName
from lakewarden.delta.past import AsOf
from lakewarden.errors import InvalidArgument
from lakewarden.log.once import Resume, WriterBatch, check_resume
from lakewarden.storage.paths import check_user
from lakewarden.tables.changes.value import Start
from lakewarden.tables.freshness import Freshness, check_freshness

_READ = ("table", "user", "users", "freshness", "version", "timestamp", "push_filters")


_WRITE = ("table", "user", "user_column", "stream_id", "batch_id", "resume")
_STREAM_WRITE = ("table", "user", "user_column", "stream_id", "checkpointLocation", "resume")


@dataclass(frozen=True)
class WriteOptions:
    """Either `user` or `user_column` names whose rows they are; neither of a SHARED table. `once` is what is written once, and
    `resume` how it goes on where a repair left it uncertain."""

    table: TableName
    user: str | None
    user_column: str | None
    stream_id: str | None
    batch_id: int | None
    resume: Resume | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteOptions:
        """Of `df.write`.

        Raises:
            InvalidArgument: as `ReadOptions.of`.
        """
        check_known(options, _WRITE)
        stream, batch = options.get("stream_id"), options.get("batch_id")
        if (stream is None) != (batch is None) or not (batch is None or batch.isdecimal()):
            raise InvalidArgument("stream_id and batch_id, a whole number from 0, are given together or not at all")
        return cls(table_of(options), *_owner(options), stream, None if batch is None else int(batch), _resume(options))

    @classmethod
    def of_stream(cls, options: Mapping[str, str]) -> WriteOptions:
        """Of `df.writeStream`: Spark gives the number of each batch with its commit. Raises as `of`."""
        check_known(options, _STREAM_WRITE)
        if not options.get("stream_id"):
            raise InvalidArgument(
                'name the stream: .option("stream_id", …); each batch of a stream with this name is written once'
            )
        return cls(table_of(options), *_owner(options), options["stream_id"], None, _resume(options))

    def once(self, batch: int | None) -> WriterBatch | None:
        """The identity of a batch; None without one."""
        return None if self.stream_id is None or batch is None else WriterBatch(f"stream/{self.stream_id}", batch)


def _resume(options: Mapping[str, str]) -> Resume | None:
    text = options.get("resume")
    return None if text is None else check_resume(text)


def _owner(options: Mapping[str, str]) -> tuple[str | None, str | None]:
    user, column = options.get("user"), options.get("user_column")
    return (None if user is None else check_user(user)), column


@dataclass(frozen=True)
class ReadOptions:
    """`users` is None for all of them; `as_of` is the version to read, in place of what `freshness` says. With `push_filters`,
    what filters leave out is not read."""

    table: TableName
    users: tuple[str, ...] | None
    freshness: Freshness
    as_of: AsOf | None
    push_filters: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Raises InvalidArgument: the table is missing, or an option is unknown or has a bad value."""
        check_known(options, _READ)
        version = options.get("version")
        if version is not None and not version.isdecimal():
            raise InvalidArgument(f"version {version!r}: versions are whole numbers from 0")
        return cls(
            table_of(options),
            users_of(options),
            check_freshness(options.get("freshness", "strong")),
            AsOf.of(None if version is None else int(version), options.get("timestamp")),
            flag(options, "push_filters"),
        )


def flag(options: Mapping[str, str], name: str) -> bool:
    """An option that is `true` or `false`, the default.

    Raises:
        InvalidArgument: it is something else.
    """
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidArgument(f"{name} {text!r}: it is true or false")
    return text == "true"


def table_of(options: Mapping[str, str]) -> TableName:
    """Raises InvalidArgument: there is no table, or not in the form `namespace.table`."""
    if "table" not in options:
        raise InvalidArgument('name the table: .option("table", "namespace.table")')
    return TableName.parse(options["table"])


def check_known(options: Iterable[str], known: Collection[str]) -> None:
    """Raises InvalidArgument: an option is not known: a misspelled `user` would mean every user."""
    folded = {name.lower() for name in known}
    for name in options:
        if name.lower() not in folded:
            raise InvalidArgument(f"unknown option {name!r}; the options are {', '.join(known)}")


def users_of(options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Those that are named; None for all of them. Raises `InvalidArgument`."""
    one, many = options.get("user"), options.get("users")
    if one is not None and many is not None:
        raise InvalidArgument("the options user and users are both given: name one user, or several")
    if one is not None:
        return (check_user(one),)
    return None if many is None else tuple(dict.fromkeys(check_user(user) for user in _listed(many)))


def _listed(text: str) -> list[object]:
    """A JSON list, or names between commas."""
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",")]
    try:
        return list(json.loads(text))
    except ValueError as error:
        raise InvalidArgument(f"users {text!r} is no JSON list of texts: {error}") from error


# The options of `readStream`, and how a source learns that it is read as a stream.
_STREAM_READ = ("table", "user", "users", "starting_from", "max_rows")

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
        """Raises InvalidArgument: the table is missing, or an option is unknown or has a bad value."""
        check_known((name for name in options if name.lower() != _MARK), _STREAM_READ)
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
