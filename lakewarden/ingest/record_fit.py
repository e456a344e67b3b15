"""Fits the rows of messages into a table; those that do not fit are found one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from lakewarden.catalog.model import Table
from lakewarden.errors import ConstraintViolation, InvalidArgument, LakewardenError
from lakewarden.ingest.record_formats import Changes, Decode, MessageChange, Row
from lakewarden.ingest.topic_client import value_of
from lakewarden.log.record import USER, LogBatch, log_schema
from lakewarden.storage.kafka_topics import TopicMessage
from lakewarden.tables.client import TableClient
from lakewarden.tables.files import check_batch
from lakewarden.tables.intake import TableIntake
from lakewarden.tables.rows.columns import in_halves
from lakewarden.tables.rows.text import from_json


@dataclass(frozen=True)
class Misfit:
    """A message that does not fit the table."""

    offset: int
    size: int
    reason: str


@dataclass(frozen=True)
class MessageFit:
    """The rows of messages, in order, and the messages that have none."""

    batch: LogBatch
    misfits: tuple[Misfit, ...]
    written: int
    removed: int


@dataclass(frozen=True)
class _Numbered:
    """A change, and its place among those of all messages."""

    number: int
    change: MessageChange


@dataclass
class _Found:
    rows: list[tuple[pa.Table, Sequence[_Numbered]]] = field(default_factory=list)
    misfits: dict[int, Misfit] = field(default_factory=dict)
    """By offset."""


@dataclass(frozen=True)
class Fit:
    """The rules for one table. The rows are of one user, or of the user that a column names; of neither on a SHARED table."""

    client: TableClient
    decode: Decode
    user: str | None = None
    user_column: str | None = None

    @classmethod
    def of(cls, client: TableClient, decode: Decode, user: str | None = None, user_column: str | None = None) -> Fit:
        """By default, the column `_user` names them, as our own messages have it.

        Raises:
            InvalidArgument: two of them, or one on a SHARED table.
        """
        by_default = None if client.table.type == "SHARED" or user is not None else USER
        made = cls(client, decode, user, user_column or by_default)
        made._intake.owner(made.user, made.user_column)
        return made

    @property
    def table(self) -> Table:
        return self.client.table

    @cached_property
    def _intake(self) -> TableIntake:
        client, warehouse = self.client, self.client.warehouse
        return TableIntake(client.table, warehouse.clock, warehouse.new_id, client.author, repeats=True, convert=from_json)

    def fit(self, messages: Sequence[TopicMessage]) -> MessageFit:
        found = _Found()
        changes: list[_Numbered] = []
        for message in messages:
            try:
                said = tuple(map(self._read, self._without_needless(self.decode(message))))
                self._check_allowed(said)
            except InvalidArgument as error:
                found.misfits[message.offset] = Misfit(message.offset, len(message.value or b""), error.message)
            else:
                changes += (_Numbered(len(changes) + at, change) for at, change in enumerate(said))
        sizes = {message.offset: len(message.value or b"") for message in messages}
        for removes, convert in ((True, self._removed), (False, self._written)):
            self._take(found, [each for each in changes if each.change.removes == removes], convert, sizes)
        return self._joined(found)

    def _read(self, change: MessageChange) -> MessageChange:
        """The values as the schema beside the message says."""
        if not change.described:
            return change
        row = dict(change.row)
        for column in self.table.schema.columns:
            if (described := change.described.get(column.name)) is not None and column.name in row:
                row[column.name] = value_of(described, row[column.name], column.type)
        return replace(change, row=row)

    def _without_needless(self, said: Changes) -> Changes:
        """An update removes its row from before only where that had another key."""
        if len(said) != 2 or not self.table.schema.keyed:
            return said
        before, after = said
        same = all(before.row.get(name) == after.row.get(name) for name in self._identity)
        return (after,) if same else said

    @property
    def _identity(self) -> tuple[str, ...]:
        owner = () if self.user_column is None else (self.user_column,)
        return (*self.table.schema.primary_key, *owner)

    def _check_allowed(self, said: Changes) -> None:
        schema = self.table.schema
        if (not schema.keyed or schema.append_only) and any(each.removes for each in said):
            raise InvalidArgument(f"it changes or removes a row, and {self.table.name} takes new rows only")

    def _take(
        self,
        found: _Found,
        changes: Sequence[_Numbered],
        convert: Callable[[Sequence[Row]], pa.Table],
        sizes: Mapping[int, int],
    ) -> None:
        if not changes:
            return
        rows = [each.change.row for each in changes]
        for first, part, made in in_halves(convert, rows, (InvalidArgument, ConstraintViolation)):
            if isinstance(made, LakewardenError):
                offset = changes[first].change.offset
                found.misfits[offset] = Misfit(offset, sizes[offset], made.message)
            elif isinstance(made, pa.Table):
                found.rows.append((made, changes[first : first + len(part)]))

    def _written(self, rows: Sequence[Row]) -> pa.Table:
        batch = self._intake.batch(rows, self.user, self.user_column)
        check_batch(self.table.schema, batch, self.client.reader.target)
        return batch.rows

    def _removed(self, rows: Sequence[Row]) -> pa.Table:
        """Of a whole row, its key counts."""
        only = [{name: row[name] for name in self._identity if name in row} for row in rows]
        return self._intake.deletes(only, self.user, self.user_column, repeats=True).rows

    def _joined(self, found: _Found) -> MessageFit:
        """All rows in the order of their messages; of a message that does not fit, none."""
        schema = self.table.schema
        changes = [each for _, some in found.rows for each in some]
        fits = [at for at, each in enumerate(changes) if each.change.offset not in found.misfits]
        order = sorted(fits, key=lambda at: changes[at].number)
        empty = log_schema(schema).append(pa.field(USER, pa.string())).empty_table()
        rows = pa.concat_tables([empty, *(rows for rows, _ in found.rows)]).take(pa.array(order, pa.int64()))
        removed = sum(changes[at].change.removes for at in order)
        misfits = tuple(found.misfits[offset] for offset in sorted(found.misfits))
        return MessageFit(LogBatch(schema.version, rows), misfits, len(order) - removed, removed)
