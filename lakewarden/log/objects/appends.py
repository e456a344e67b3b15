"""Appends the parcels of a call: those of one user become visible together, however many they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice

from lakewarden.base.clock import Clock, NewId, to_micros
from lakewarden.base.faults import Reach, no_faults
from lakewarden.errors import Conflict, ConstraintViolation, LakewardenError, LostPlace, SchemaChanged
from lakewarden.log.objects.gather import Gathering
from lakewarden.log.objects.group import Parcel
from lakewarden.log.objects.staging import abandon, discard, stage
from lakewarden.log.position import NOTHING
from lakewarden.log.receipt import Receipt
from lakewarden.log.table_log import Behind
from lakewarden.log.touches import Touched
from lakewarden.storage.objects import ObjectStore

_ATTEMPTS = 20
"""Looks at the log before a call raises CONFLICT; each lost one is another writer's success."""


class Appends:
    """Appends to one partition. Safe for threads."""

    def __init__(
        self,
        store: ObjectStore,
        log_id: str,
        gathering: Gathering,
        clock: Clock,
        new_id: NewId,
        *,
        stages: bool = True,
        reach: Reach = no_faults,
    ) -> None:
        """`stages`: whether the format of the warehouse has staged batches."""
        self._store = store
        self._log_id = log_id
        self._gathering = gathering
        self._clock = clock
        self._new_id = new_id
        self._stages = stages
        self._reach = reach

    def append(self, parcels: Sequence[Parcel], after: int | None = None, keys: Touched | None = None) -> Receipt:
        """As `LogWriter.append`, for rows that are encoded already. There is at least one parcel."""
        if len(parcels) > 1 and self._stages and len({user for parcel in parcels for user in parcel.users}) == 1:
            return self._staged(parcels[0].schema_version, parcels, after, keys)
        return self._gathering.append(parcels, after, keys)

    def append_whole(self, parcels: Iterator[Parcel], after: int | Behind | None = None) -> Receipt:
        """As `LogWriter.append_whole`, for rows that are encoded as they are needed."""
        first = [*islice(parcels, 2)]
        if not first:
            return Receipt(0, NOTHING)
        if len(first) == 1 or not self._stages:
            return self._named([*first, *parcels], after)
        return self._staged(first[0].schema_version, chain(first, parcels), after)

    def _staged(
        self, schema_version: int, parcels: Iterable[Parcel], after: int | Behind | None = None, keys: Touched | None = None
    ) -> Receipt:
        began, put_id = to_micros(self._clock()), self._new_id()
        try:
            staged = stage(self._store, self._log_id, put_id, schema_version, began, (parcel.chunks for parcel in parcels))
        except LakewardenError:
            with suppress(LakewardenError):  # as below
                abandon(self._store, self._log_id, put_id)
            raise
        self._reach("append:staged")
        try:
            return self._named((Parcel.naming(staged),), after, keys)
        except (Conflict, ConstraintViolation, LostPlace, SchemaChanged):
            with suppress(LakewardenError):  # what stays here is removed when it is abandoned
                discard(self._store, self._log_id, put_id)
            raise

    def _named(self, parcels: Sequence[Parcel], after: int | Behind | None, keys: Touched | None = None) -> Receipt:
        """Appends behind `after`, which is found anew where others came between."""
        if not callable(after):
            return self._gathering.append(parcels, after, keys)
        for _ in range(_ATTEMPTS - 1):
            with suppress(Conflict):
                return self._gathering.append(parcels, after(), keys)
        return self._gathering.append(parcels, after(), keys)
