"""One version of a table as its log has it, all but its number worked out on demand. What fails raises as `ScopeTable.open`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from lakewarden.delta.commit_log.actions import TableHead, logged_name
from lakewarden.delta.parquet.column_ends import Bounds
from lakewarden.delta.parquet.files import DataFile, LoggedName
from lakewarden.delta.parquet.said_bounds import SaidEnds, bounds_of, end_of, said_ends, whole
from lakewarden.delta.parquet.schema import SEQ, live_columns
from lakewarden.delta.partitions import NO_PARTITION, Partition, respelled
from lakewarden.delta.replay.live_files import vectors_of
from lakewarden.delta.replay.log_state import LogState


class LogVersion:
    """A version that was replayed."""

    def __init__(self, state: LogState) -> None:
        self.state = state
        self._asked: dict[str, int | None] = {}

    @property
    def version(self) -> int:
        return self.state.version

    @cached_property
    def head(self) -> TableHead:
        found, protocol = self.state.metadata, self.state.protocol
        return TableHead(
            found.id or "",
            found.schema_string or "",
            {name: value for name, value in found.configuration.items() if value is not None},
            found.created_time,
            found.name,
            found.description,
            found.partition_columns,
            protocol.min_reader_version,
            protocol.min_writer_version,
            protocol.reader_features or (),
            protocol.writer_features or (),
        )

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """Its live files, in any order."""
        paths, sizes, modified = (self._column(name) for name in ("key", "size", "modificationTime"))
        ends = ((whole(each.rows), _seq(each.lowest), _seq(each.highest)) for each in self._ends)
        found = zip(paths, sizes, modified, ends, self._partitions(), self._logged(), strict=True)
        return tuple(
            DataFile(path, size or 0, rows, changed or 0, min_seq, max_seq, None, partition, logged)
            for path, size, changed, (rows, min_seq, max_seq), partition, logged in found
        )

    @property
    def has_files(self) -> bool:
        return bool(self.state.files.num_rows)

    @cached_property
    def stats(self) -> Mapping[str, str]:
        """Delta's statistics of each file that has any, as JSON, by path."""
        texts = zip(self._column("key"), self._column("stats"), strict=True)
        return {path: text for path, text in texts if text is not None}

    def bounds(self, column: str) -> Bounds | None:
        """The bounds of the column in each of `files`; None where no file has any."""
        return bounds_of(self.head.schema, column, self._ends)

    def transaction(self, app_id: str) -> int | None:
        """The version of that transaction identifier; None where there is none."""
        found = self._asked[app_id] = self.state.transactions.get(app_id)
        return found

    @property
    def known_transactions(self) -> Mapping[str, int | None]:
        """Those that are known without another look, as `transaction` returns them."""
        return self._asked

    @property
    def digest(self) -> str:
        """SHA-256 of the commit that made it; empty when that has left the log."""
        return self.state.digest

    @cached_property
    def _ends(self) -> list[SaidEnds]:
        return [said_ends(text) for text in self._column("stats")]

    def _partitions(self) -> list[Partition]:
        columns = self.head.partition_columns
        if not columns:
            return [NO_PARTITION] * self.state.files.num_rows
        types = {column.name: column.type for column in live_columns(self.head.schema)}
        said = self.state.files.column("partitionValues").to_pylist(maps_as_pydicts="lossy")
        texts = [respelled([(values or {}).get(name) for values in said], types.get(name, "")) for name in columns]
        return [tuple(zip(columns, values, strict=True)) for values in zip(*texts, strict=True)]

    def _logged(self) -> list[LoggedName | None]:
        names = zip(self._column("key"), self._column("path"), vectors_of(self.state.files), strict=True)
        return [logged_name(*each) for each in names]

    def _column(self, name: str) -> list[Any]:
        found: list[Any] = self.state.files.column(name).to_pylist()
        return found


def _seq(ends: object) -> int | None:
    return whole(end_of(ends, SEQ))
