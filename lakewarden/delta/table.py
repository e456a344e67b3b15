"""One scope's Delta table at one version: its contents, and the only way to change it.

A commit follows exactly the snapshot that was read, in steps: what it names is durable before it has its own name
(storage/steps.py). It succeeds only if no other commit came first, which makes a flush exactly once (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from lakewarden.base.clock import NewId, random_id
from lakewarden.base.connection import Location
from lakewarden.base.faults import Reach, no_faults
from lakewarden.catalog.model import TableSchema
from lakewarden.delta.commit_log.actions import READER, CommitChange, Mode, TableHead, commit_text
from lakewarden.delta.commit_log.checkpoint import is_due, write_checkpoint
from lakewarden.delta.commit_log.committing import held_still, transactions_of
from lakewarden.delta.commit_log.damage import check_name, torn_error
from lakewarden.delta.commit_log.kept_versions import CHAINS
from lakewarden.delta.commit_log.publish import publish
from lakewarden.delta.commit_log.stamp import CommitStamp
from lakewarden.delta.commit_log.version import OwnCommit
from lakewarden.delta.features import check_features, check_grows, check_readable
from lakewarden.delta.parquet.files import DataFile, NewFile
from lakewarden.delta.parquet.reading import open_file
from lakewarden.delta.parquet.schema import column_ids, delta_schema, read_schema, version_of
from lakewarden.delta.replay.log_objects import LogFiles
from lakewarden.delta.replay.log_state import PASSED_OVER, replay
from lakewarden.delta.row_rules import RowRule, check_rows, check_understood, rules_of
from lakewarden.delta.table_contents import TableContents
from lakewarden.errors import InvalidArgument, LakewardenError, Unsupported
from lakewarden.storage.location import delta_uri, local_path
from lakewarden.storage.open import open_store
from lakewarden.storage.steps import Steps

_APPEND: Mode = "Append"
_OVERWRITE: Mode = "Overwrite"
_NONE: Mapping[str, str] = MappingProxyType({})
_NO_NUMBERS: Mapping[str, int] = MappingProxyType({})


class ScopeTable(TableContents):
    """A table at one version; made by `open`, or from what is known of it (delta/scope.py)."""

    @classmethod
    def open(cls, location: Location, version: int | None = None, listed: LogFiles | None = None) -> ScopeTable | None:
        """Opens the table's newest version, or that version; None when there is no table. `listed` as for `replay`.

        Raises:
            NotFound: the version does not exist, or has expired; the message names the readable ones.
            Corrupt: there is no readable Delta table there. A torn newest commit, or a checkpoint that can't be read, is
                skipped (`torn`).
        """
        if version is not None and version < 0:
            raise InvalidArgument(f"version {version} of {location}: versions count from 0")
        delta_uri(location.uri)  # a place that delta-rs, which writes its checkpoints, would take for another
        state = replay(location, version, listed)
        if state is None:
            return None
        check_readable(state)
        return cls(location, state)

    def commit(
        self,
        change: CommitChange,
        *,
        since: datetime,
        now: datetime,
        schemas: tuple[TableSchema, ...] | None = None,
        properties: Mapping[str, str] = _NONE,
        new_id: NewId = random_id,
        reach: Reach = no_faults,
    ) -> Steps[OwnCommit]:
        """Commits on top of this version, which does not change.

        Args:
            change: what it does, but for the mode and the head, which follow from the table.
            since: when the scope's place, or what this commit relies on, was read; by the clock of `now`.
            schemas: of the table, oldest first; it gets the columns of the newest. Where it does not keep its files under them
                (`keeps_files`), every live file has to be among those removed. None leaves the columns that it has.
            properties: of the table, by name, set in the same commit.
            new_id: ids of commits.
            reach: `before-link` when all is durable and the commit has no name yet.

        Raises:
            Conflict: another commit came first, or this took too long (`TooLate`); nothing was changed.
            Corrupt: a torn commit has the next version; nothing was changed.
            Unsupported: another writer's feature or rule forbids it; nothing was changed.
        """
        head, mode, adds, removes = self.head, _APPEND, change.adds, change.removes
        if schemas is not None and (columns := self._with_columns(schemas[-1])) is not self.head:
            head, mode = columns, _APPEND if self._keeps_some(removes, schemas) else _OVERWRITE
        # An overwrite removes every file, and with them what another writer put beside them.
        if removes and mode == _APPEND:
            self.check_plain()
        # `delta.appendOnly` forbids to remove rows; a rewrite of the same rows (`dataChange` false) removes none.
        if removes and change.data_change:
            check_grows(self.head, self.uri)
        rules = self._rules_kept_by(head, schemas)
        if adds and change.data_change:
            self._check_rows(rules, adds, schemas)
        head = head.with_properties(properties) if properties else head
        change = replace(change, mode=mode, head=None if head is self.head else head)
        digest = yield from self._commit(change, since, now, new_id, reach)
        version = self.version + 1
        self._checkpoint(version)
        return OwnCommit(version, change, now, digest)

    def _commit(
        self, change: CommitChange, since: datetime, now: datetime, new_id: NewId = random_id, reach: Reach = no_faults
    ) -> Steps[str]:
        """Makes the commit that directly follows this version, and returns the digest of its text."""
        check_whole(self, self.location)
        check_features(self.head, self.uri)
        text = commit_text(change, self.version, now, new_id())
        yield from publish(self.location, self.version + 1, text, held_still(change.stamp, since, now), reach)
        return CHAINS.was_made(self.location, self.version + 1, text, self.digest)

    def check_partitions(self, schema: TableSchema) -> None:
        """Checks that its files are divided as the table's are.

        Raises:
            Unsupported: by other columns, which another writer chose.
        """
        if self.has_files and self.head.partition_columns != schema.partition_by:
            there, wanted = (", ".join(names) or "nothing" for names in (self.head.partition_columns, schema.partition_by))
            raise Unsupported(
                f"{self.uri} is partitioned by {there} and its table by {wanted}: the partitions are another writer's;"
                " restore a version before that"
            )

    def _with_columns(self, schema: TableSchema) -> TableHead:
        """What the table says of itself with these columns; the same as now where it has them."""
        self.check_partitions(schema)
        if version_of(self.head.schema, (schema,)) is not None and self.head.partition_columns == schema.partition_by:
            return self.head
        return replace(self.head, schema=delta_schema(schema), partition_columns=schema.partition_by)

    def _keeps_some(self, removes: Sequence[DataFile], schemas: tuple[TableSchema, ...]) -> bool:
        """Whether a commit that changes the columns leaves files as they are.

        Raises:
            Unsupported: it does, and they would say something else.
        """
        if {file.path for file in removes} == {file.path for file in self.files()}:
            return False
        if not self.keeps_files(schemas):
            raise Unsupported(f"{self.uri} has other columns than the new files; only a rewrite of all its files can change them")
        return True

    def check_plain(self) -> None:
        """Checks that files can be replaced.

        Raises:
            Unsupported: another writer left deletion vectors, which our removal of a file could not name, so that its rows
                would stay.
        """
        if not self.plain:
            raise Unsupported(
                f"{self.uri} has deletion vectors of another writer, by which {self.deleted_rows} of its rows are deleted."
                " It is read as it is, and no flush, compact, optimize or restore replaces a file of it until Spark has written"
                " those files again: REORG TABLE … APPLY (PURGE)"
            )

    def check_takes_rows(self, schema: TableSchema) -> None:
        """Call this before rows of this schema are written for it.

        Raises:
            Unsupported: another writer asks more of a commit, or of its rows, than can be kept here.
        """
        check_features(self.head, self.uri)
        check_understood(rules_of(self.head), schema, self.uri)

    def _rules_kept_by(self, head: TableHead, schemas: tuple[TableSchema, ...] | None) -> tuple[RowRule, ...]:
        """What other writers ask of the rows, and will with this head; where it replaces columns of theirs, without these.

        Raises:
            Unsupported: it would take a rule away with a column of ours.
        """
        rules = rules_of(self.head)
        lost = [rule for rule in rules if rule not in rules_of(head)] if rules and head is not self.head else []
        if lost and version_of(self.head.schema, schemas or ()) is not None:
            raise Unsupported(
                f"{self.uri} has {lost[0].what} of another writer, which the columns of the newest schema take away"
            )
        return tuple(rule for rule in rules if rule not in lost)

    def _check_rows(self, rules: Sequence[RowRule], adds: Sequence[NewFile], schemas: tuple[TableSchema, ...] | None) -> None:
        """Reads new files again where other writers ask something of their rows.

        Raises:
            Unsupported, ConstraintViolation: as `check_rows`.
        """
        if not rules:
            return
        assert schemas, "a commit of rows has their schema"
        store, wanted, ids = open_store(self.location), read_schema(schemas[-1]), column_ids(schemas[-1])
        parts = (open_file(store, file.path, file.partition).read(wanted, ids) for file in adds)
        check_rows(rules, schemas[-1], parts, self.uri)

    def empty(
        self, *, stamp: CommitStamp, since: datetime, now: datetime, transaction: tuple[str, int] | None = None
    ) -> Steps[None]:
        """Commits a version without files. The caller writes the checkpoint.

        Args:
            since: as in `commit`.
            transaction: application id and version, in the same commit.

        Raises:
            Conflict: as `commit`; nothing was changed.
        """
        change = CommitChange(stamp, transactions_of(transaction), _OVERWRITE, removes=self.files())
        yield from self._commit(change, since, now)

    @property
    def _mended(self) -> bool:
        """Whether a checkpoint of its log can't be read, and was passed over."""
        return not self.is_kept and any(note.kind == PASSED_OVER for note in self.log_state.notes)

    def checkpoint(self) -> None:
        """Writes the checkpoint of this version; raises as `write_checkpoint`."""
        write_checkpoint(self.location, self.version, in_place=True, passes_over=self._mended)

    def _checkpoint(self, version: int) -> None:
        """Writes the checkpoint of a version that was just committed, if one is due."""
        if is_due(version, self.property("delta.checkpointInterval")):
            # features of others may ask for what only delta-rs puts into a checkpoint, which it then makes itself
            in_place = local_path(self.uri) is not None or self.head.reader != READER
            with suppress(LakewardenError):  # the commit is complete without it, and the next checkpoint will follow
                write_checkpoint(self.location, version, in_place=in_place, passes_over=self._mended)


def check_whole(table: ScopeTable | None, location: Location) -> None:
    """Call this before writing anything for a commit that follows this snapshot.

    Raises:
        Corrupt: a torn commit is newer, after which nothing can be committed.
    """
    if table is None:
        check_name(location, 0)
    elif table.torn is not None:
        raise torn_error(location, table.torn)
