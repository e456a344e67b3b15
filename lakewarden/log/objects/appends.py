"""Appends the parcels of a call: those of one user become visible together, however many they are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from lakewarden.clock import Clock, NewId, to_micros
from lakewarden.errors import Conflict, LakewardenError
from lakewarden.faults import Reach, no_faults
from lakewarden.log.objects.gather import Gathering
from lakewarden.log.objects.group import Parcel
from lakewarden.log.objects.staged import discard, stage
from lakewarden.log.receipt import Receipt
from lakewarden.log.touched import Touched
from lakewarden.storage.objects import ObjectStore


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
            return self._staged(parcels, after, keys)
        return self._gathering.append(parcels, after, keys)

    def _staged(self, parcels: Sequence[Parcel], after: int | None, keys: Touched | None) -> Receipt:
        began, objects = to_micros(self._clock()), [parcel.chunks for parcel in parcels]
        staged = stage(self._store, self._log_id, self._new_id(), parcels[0].schema_version, began, objects)
        self._reach("append:staged")
        try:
            return self._gathering.append((Parcel.naming(staged),), after, keys)
        except Conflict:
            with suppress(LakewardenError):  # what stays here is removed when it is abandoned
                discard(self._store, self._log_id, staged)
            raise
