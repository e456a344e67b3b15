"""Allows at most one active job per idempotency key: the process that creates the key's next claim may enqueue its job.

`active-jobs/<digest of the key>/<n>` names the n-th job that claimed the key. A claim is valid as long as its job is
active. A paused process can create a pruned number again, so a claim counts only if there is no newer one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.errors import Corrupt, InUse
from lakewarden.storage.objects import AlreadyThere, Missing, ObjectStore

_ROOT = "active-jobs"
_KEPT = 2
_GRACE = timedelta(seconds=60)
"""How long a claim counts whose job does not exist yet: its process is about to create the job, or died."""


class AlreadyActive(InUse):
    """The same was requested before, and is not finished."""

    def __init__(self, key: str, job_id: str) -> None:
        super().__init__(f"already queued or running: job {job_id} has the same idempotency key {key!r}")
        self.job_id = job_id


@dataclass(frozen=True)
class _Claim:
    number: int
    job_id: str
    at: datetime


def claim_key(store: ObjectStore, key: str, job_id: str, now: datetime, is_active: Callable[[str], bool | None]) -> None:
    """Claims the key for a job that will be created.

    Args:
        is_active: whether a job is unfinished; None when the job does not exist.

    Raises:
        AlreadyActive: another job has the key.
    """
    prefix = f"{_ROOT}/{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    last = _newest(store, prefix)
    if last is not None and _holds(last, now, is_active):
        raise AlreadyActive(key, last.job_id)
    number = 1 if last is None else last.number + 1
    content = {"job_id": job_id, "at": now.isoformat()}  # not the key, which may name a user
    with suppress(AlreadyThere):  # by another process, or by a retry of this request: the newest claim decides
        store.create(f"{prefix}/{number:012d}", json.dumps(content, ensure_ascii=False).encode())
    won = _newest(store, prefix)
    if won is None or won.job_id != job_id:
        raise AlreadyActive(key, "of another caller" if won is None else won.job_id)
    store.delete([stored.key for stored in store.list(prefix)][:-_KEPT])


def _newest(store: ObjectStore, prefix: str) -> _Claim | None:
    while found := store.list(prefix):
        try:
            content = json.loads(store.get(found[-1].key))
            number = int(found[-1].key.rsplit("/", 1)[1])
            return _Claim(number, content["job_id"], datetime.fromisoformat(content["at"]))
        except Missing:
            continue  # pruned since the listing, so there are newer ones
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{found[-1].key} can't be read as a claim of a job") from error
    return None


def _holds(claim: _Claim, now: datetime, is_active: Callable[[str], bool | None]) -> bool:
    active = is_active(claim.job_id)
    return now - claim.at < _GRACE if active is None else active
