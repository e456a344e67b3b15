"""What one version of a scope's Delta table holds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakewarden.base.connection import Location
from lakewarden.base.scope import Scope
from lakewarden.catalog.model import TableSchema
from lakewarden.catalog.report import ScopeState
from lakewarden.delta.commit_log.actions import DELETION_VECTORS, MOST_WRITER, READER, TableHead, logged_name
from lakewarden.delta.commit_log.commits import CommitLog
from lakewarden.delta.commit_log.committing import BATCH_APP, SWEPT
from lakewarden.delta.commit_log.version import MOST_KEPT, Snapshot, state_of
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.parquet.schema import SEQ, SEQ_ID, LiveColumn, column_ids, is_ours, live_columns, reads_alike, version_of
from lakewarden.delta.parquet.stats import Bounds, SaidEnds, Value, bounds_of, end_of, said_ends, whole_number
from lakewarden.delta.partitions import NO_PARTITION, Partition, respelled, value_of
from lakewarden.delta.replay.columns import all_rows
from lakewarden.delta.replay.live_files import vectors_of
from lakewarden.delta.replay.log_state import LogState, replay
from lakewarden.errors import Corrupt, Unsupported
from lakewarden.storage.open import open_store


class TableContents:
    """One version by its log, or by what is kept of it: then the log is read for what that lacks alone. All but its number is
    worked out on demand; what fails raises as `ScopeTable.open`."""

    def __init__(self, location: Location, found: LogState | Snapshot) -> None:
        self.location = location
        self.version, self.digest = found.version, found.digest
        """`digest`: SHA-256 of the commit that made it; empty when that has left the log."""
        self._kept = found if isinstance(found, Snapshot) else None
        if isinstance(found, LogState):
            self.log_state = found
        self._transactions = {} if self._kept is None else {**self._kept.transactions}
        """Those that are known without another look, as `watermark` returns them."""
        self._matched: tuple[tuple[TableSchema, ...], TableSchema] | None = None
        """What `schema_version` returned last, and for which schemas."""
        self._bounds: dict[str, Bounds | None] = {}
        self.scope: Scope | None = None
        """The owner whose rows its files must hold; None when that is not checked."""

    @property
    def uri(self) -> str:
        return self.location.uri

    @cached_property
    def log_state(self) -> LogState:
        """The version by its log, which is read where that was not needed before."""
        found = replay(self.location, self.version)
        if found is None:
            raise Corrupt(f"{self.location}: version {self.version} cannot be read from its log")
        return found

    @property
    def is_kept(self) -> bool:
        """Whether it was not opened."""
        return self._kept is not None

    @property
    def torn(self) -> int | None:
        """As of `LogState`."""
        return None if self.is_kept else self.log_state.torn

    @cached_property
    def head(self) -> TableHead:
        """What the table says of itself."""
        if self._kept is not None:
            return self._kept.head
        found, protocol = self.log_state.metadata, self.log_state.protocol
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
    def columns(self) -> tuple[LiveColumn, ...]:
        return live_columns(self.head.schema)

    def column_ids(self, schemas: tuple[TableSchema, ...]) -> dict[str, int]:
        """Returns the ids of the Delta columns by name. Raises as `schema_version`."""
        return column_ids(self.schema_version(schemas))

    @cached_property
    def plain(self) -> bool:
        """Whether its files hold exactly its rows: no row is deleted by a vector."""
        return not self.deleted_rows

    @cached_property
    def deleted_rows(self) -> int:
        """Returns the number of rows that other writers deleted by deletion vectors."""
        if DELETION_VECTORS not in self.head.features:
            return 0
        return sum(vector.cardinality for vector in vectors_of(self.log_state.files) if vector is not None)

    def scan(self) -> pa.Table:
        """Reads its rows by the log alone, as those of any writer's table: without those that vectors delete. That is slower."""
        return all_rows(self.log_state)

    def schema_version(self, schemas: tuple[TableSchema, ...]) -> TableSchema:
        """Returns the schema version that the Delta columns match.

        Raises:
            Unsupported: they match no version: another writer added, dropped, renamed or mapped columns in Delta itself.
            Corrupt: the same, and they were this warehouse's: its state is older than they are.
        """
        if self._matched is not None and self._matched[0] is schemas:
            return self._matched[1]
        mapping = self.mapping
        if mapping != "none":
            raise Unsupported(f"{self.uri} was given column mapping ({mapping}) by another writer; restore a version before that")
        if found := version_of(self.head.schema, schemas):
            self._matched = schemas, found
            return found
        if is_ours(self.columns):
            raise self._younger(schemas[-1])
        there = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        raise Unsupported(
            f"the Delta columns of {self.uri} were changed by another writer and match no schema version of the table"
            f": {there}; restore a version before that"
        )

    def _younger(self, newest: TableSchema) -> Corrupt:
        known = {(column.id, column.name, str(column.type)) for column in newest.columns} | {(SEQ_ID, SEQ, "")}
        strange = [f"{each.name} {each.declared}" for each in self.columns if (each.id, each.name, each.declared) not in known]
        there = {column.id for column in self.columns}
        gone = [column.name for column in newest.columns if column.id not in there]
        said = [f"it has {', '.join(strange)}"] * bool(strange) + [f"it lacks {', '.join(gone)}"] * bool(gone)
        return Corrupt(
            f"the columns of {self.uri} are younger than the warehouse's state, as after a restore of the state from a backup:"
            f" {' and '.join(said)}; `lakewarden repair --restored` brings the columns back"
        )

    def named_alike(self, schemas: tuple[TableSchema, ...]) -> bool:
        """Whether its files say the same under the newest columns to those who go by names, as statistics do, too.

        Raises as `schema_version` where there are any: a fence has the columns of the table that was dropped.
        """
        return not self.has_files or (there := self.schema_version(schemas)) is schemas[-1] or reads_alike(there, schemas[-1])

    def keeps_files(self, schemas: tuple[TableSchema, ...]) -> bool:
        """Whether a commit may bring the newest columns and leave files as they are, which lack some of them. Otherwise it has to
        replace every file.

        Raises as `named_alike`.
        """
        there = self.schema_version(schemas) if self.has_files else version_of(self.head.schema, schemas)
        # none of a fence of a table that had other columns
        return there is not None and reads_alike(there, schemas[-1])

    @cached_property
    def mapping(self) -> str:
        """The mode of Delta's column mapping, which only other writers set; usually `none`."""
        return self.property("delta.columnMapping.mode") or "none"

    def watermark(self, app_id: str) -> int | None:
        """The version of that transaction identifier; None where the table has not seen it."""
        if app_id not in self._transactions:
            self._transactions[app_id] = self.log_state.transactions.get(app_id)
        return self._transactions[app_id]

    @property
    def is_swept(self) -> bool:
        """Whether it is a fence that is being removed: nothing may be committed after it."""
        return not self.has_files and self.watermark(SWEPT) is not None

    @property
    def is_fenced(self) -> bool:
        """Whether it is a fence: nothing that was committed before it is there any more."""
        return not self.has_files and CommitLog(open_store(self.location)).is_fenced(self.version)

    @property
    def has_files(self) -> bool:
        return bool(self.log_state.files.num_rows if self._kept is None else self._kept.files)

    @cached_property
    def stats(self) -> Mapping[str, str]:
        """Delta's statistics of each live file that has any, as JSON, by path."""
        if self._kept is not None:
            return self._kept.stats or {}
        texts = zip(self._column("key"), self._column("stats"), strict=True)
        return {path: text for path, text in texts if text is not None}

    def bounds(self, column: str) -> Bounds | None:
        """For each live file, in the order of `files`, the lowest and the highest value of the column, None where that is
        unknown; None where it is unknown of all. What statistics say is rounded outwards (`delta.parquet.stats`), and read
        once: it is most of a look-up's work."""
        if column not in self._bounds:
            self._bounds[column] = self._bounds_of(column)
        return self._bounds[column]

    def _bounds_of(self, column: str) -> Bounds | None:
        if column in self.head.partition_columns:
            values = self.partition_values(column)
            return values, values
        bounds = bounds_of(self.head.schema, column, self._ends)
        if bounds is None or self._by_age == sorted(self._by_age):
            return bounds
        low, high = bounds
        return [low[index] for index in self._by_age], [high[index] for index in self._by_age]

    def partition_values(self, column: str) -> list[Value | None]:
        """The value of a partition column in each live file, in the order of `files`; None for NULL, and where it can't be
        read."""
        type_ = next((each.type for each in self.columns if each.name == column), "")
        texts = (dict(file.partition).get(column) for file in self.files())
        return [value_of(text, type_) for text in texts]

    def files(self) -> tuple[DataFile, ...]:
        """The live files, oldest rows first; files of other writers, whose `_seq` is unknown, come first."""
        return self._files

    @cached_property
    def _files(self) -> tuple[DataFile, ...]:
        found = self._listed
        if self.plain and any(file.rows is None for file in found):
            found = tuple(file if file.rows is not None else self._counted(file) for file in found)
        return tuple(found[index] for index in self._by_age)

    @cached_property
    def _by_age(self) -> list[int]:
        """The places of the live files in what was found, oldest rows first."""
        files = self._listed
        return sorted(range(len(files)), key=lambda index: files[index].age)

    @cached_property
    def _listed(self) -> tuple[DataFile, ...]:
        """The live files, in any order."""
        if self._kept is not None:
            return self._kept.files
        paths, sizes, modified = (self._column(name) for name in ("key", "size", "modificationTime"))
        ends = ((whole_number(each.rows), _seq(each.lowest), _seq(each.highest)) for each in self._ends)
        spelled = zip(self._column("path"), vectors_of(self.log_state.files), strict=True)
        found = zip(paths, sizes, modified, ends, self._partitions(), spelled, strict=True)
        return tuple(
            DataFile(path, size or 0, rows, changed or 0, min_seq, max_seq, None, partition, logged_name(path, *names))
            for path, size, changed, (rows, min_seq, max_seq), partition, names in found
        )

    @cached_property
    def _ends(self) -> list[SaidEnds]:
        texts = self._column("stats") if self._kept is None else (self.stats.get(file.path) for file in self._listed)
        return [said_ends(text) for text in texts]

    def _partitions(self) -> list[Partition]:
        columns = self.head.partition_columns
        if not columns:
            return [NO_PARTITION] * self.log_state.files.num_rows
        types = {column.name: column.type for column in self.columns}
        said = self.log_state.files.column("partitionValues").to_pylist(maps_as_pydicts="lossy")
        texts = [respelled([(values or {}).get(name) for values in said], types.get(name, "")) for name in columns]
        return [tuple(zip(columns, values, strict=True)) for values in zip(*texts, strict=True)]

    def _column(self, name: str) -> list[Any]:
        found: list[Any] = self.log_state.files.column(name).to_pylist()
        return found

    def _counted(self, file: DataFile) -> DataFile:
        """Returns the file with its number of rows, which another writer's file may have only in its footer."""
        return file._replace(rows=open_file(open_store(self.location), file.path).footer.rows)

    def snapshot(self, app_id: str) -> Snapshot:
        """This version as a value. `app_id` is that of the watermark."""
        names = (app_id, BATCH_APP) if self.has_files else (app_id, BATCH_APP, SWEPT)
        transactions = {**self._transactions, **{name: self.watermark(name) for name in names}}
        files, digest = self.files(), self.digest if self.can_be_kept else ""
        stats = self.stats if self.can_be_kept and len(files) <= MOST_KEPT else None
        return Snapshot(self.version, self.head, files, stats, app_id, transactions, digest)

    @cached_property
    def can_be_kept(self) -> bool:
        """Whether this version can be known without its log: by what is kept beside it, which lists no features, no vectors, and
        no spellings of others."""
        if self.is_kept:
            return True
        lists_features = self.head.reader > READER or self.head.writer >= MOST_WRITER
        return not lists_features and all(file.logged is None for file in self.files())

    def state(self, app_id: str) -> ScopeState:
        files, watermark = self.files(), self.watermark(app_id)
        return state_of(self.version, files, watermark)

    def next_batch(self) -> int:
        """The number of the next batch file."""
        last = self.watermark(BATCH_APP)
        return 0 if last is None else last + 1

    def property(self, name: str) -> str:
        """One of the table's own properties; empty where it is not set."""
        return self.head.configuration.get(name) or ""


def _seq(ends: object) -> int | None:
    return whole_number(end_of(ends, SEQ))
