"""What is kept of a scope's newest version: by its manifest, or by this process. It is looked at before it is used. And the
commits that led there, as this process saw them.

That version v + 1 does not exist proves neither that v does nor that it is the same: the log may have expired below a
checkpoint, a dropped table may have been swept away and started again, a backup may have been restored. So commit v is read
and its digest compared; no two commits are equal. If it is there and young, nothing above it can have been removed, and a
commit that is created as v + 1 can only follow it. If it is old, one listing shows whether something is above it
(docs/decisions/0033-snapshots-without-opening.md).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

import msgspec

from lakewarden.base.clock import HELD_AT_MOST, Clock, system_clock
from lakewarden.base.connection import Location
from lakewarden.base.recent import Recent
from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import TableHead
from lakewarden.delta.commit_log.version import MOST_KEPT, Snapshot
from lakewarden.delta.parquet.files import DataFile
from lakewarden.delta.replay.log_objects import LOG, commit_name, leading_version
from lakewarden.storage.location import local_path
from lakewarden.storage.objects import Missing, ObjectStore
from lakewarden.storage.open import open_store

NAME = "manifest.json"
"""The object beside the table that holds it (delta/manifest.py)."""

KEPT_VERSIONS: Recent[str, Snapshot] = Recent(2 * MOST_KEPT, 2)
"""What this process made last, by the key that the scope's manifest is signed with: on object stores, which saves reading the
manifest again, and wherever it lists no files. Of one version as many files are kept as `MOST_KEPT`."""

YOUNG = HELD_AT_MOST / 2
"""A commit that is younger, by the store's time, has nothing above it that is old enough to be removed within
`HELD_AT_MOST` of the look: fences stay for twice that time, log entries longer. The other half is for clocks that differ."""

_LOG_STAYS = "delta.logRetentionDuration"
_HOURS = re.compile(r"interval (\d+) hours")


def kept_snapshot(target: ScopeTarget, *, newest: bool) -> Snapshot | None:
    """The scope's version by what is kept of it, after a look at its commit; None where the table has to be opened.

    Args:
        newest: as in `is_current`. Without it, a newer version may exist: a commit on this one is refused then.
    """
    # As far as is known, no flush has committed yet: then nothing has to be looked for on an object store.
    is_new = target.floor is not None and target.known is None and local_path(target.uri) is None
    if not target.manifest_key or is_new:
        return None
    known = target.known  # of more than a version has, opening finds out which of the two is wrong
    for snapshot in _versions(target):
        is_less = known is not None and known.exceeds(snapshot.version, snapshot.watermark)
        if not is_less and is_current(target.location, snapshot, newest=newest):
            return snapshot
    return None


def _versions(target: ScopeTarget) -> Iterator[Snapshot]:
    """What this process remembers, and, if that is not used, what the manifest keeps."""
    remembered = KEPT_VERSIONS.get(target.manifest_key)
    if remembered is not None:
        yield remembered
    with suppress(Missing):
        kept = verified(open_store(target.location).get(NAME), target.manifest_key, target.app_id)
        if kept is not None and (remembered is None or kept.digest != remembered.digest):
            yield kept


def is_current(location: Location, kept: Snapshot, *, newest: bool, clock: Clock = system_clock) -> bool:
    """Returns whether a commit that follows this version may be tried: its own commit is there.

    Args:
        newest: also whether it is the newest version. On a disk that is always looked at.
        clock: compared with the store's times.
    """
    store, version = open_store(location), kept.version
    if (newest or local_path(location.uri) is not None) and store.has(commit_name(version + 1)):
        return False
    try:
        text, modified = store.get_dated(commit_name(version))
    except Missing:
        return False
    if sha256(text).hexdigest() != kept.digest:
        return False
    CHAINS.was_read(location, version, text, kept.digest)
    young = abs(clock() - modified) < YOUNG
    return (young and _keeps_its_log(kept)) or _is_last(store, version)


def _keeps_its_log(kept: Snapshot) -> bool:
    """Whether no program removes young entries of its log. Our tables say so in hours, Delta's default is 30 days; where another
    program has set it in other words, that is not known."""
    said = kept.head.configuration.get(_LOG_STAYS)
    if said is None:
        return True
    hours = _HOURS.fullmatch(said)
    return hours is not None and timedelta(hours=int(hours[1])) >= 2 * HELD_AT_MOST


def _is_last(store: ObjectStore, version: int) -> bool:
    """Whether one listing shows that version as the last. What removes a log leaves a checkpoint above it until the end."""
    names = store.keys(LOG)
    above = any((leading_version(name) or 0) > version for name in names)
    return commit_name(version) in names and not above


# The form in which a version is kept: a part of manifest.json, signed under the scope's own key.
#
# The key follows from the warehouse's, and from the scope's location, log and user (`Erasures.derived_key`). So text of another
# place, scope, log or warehouse does not verify, and neither does text that is cut off or forged. That it verifies says that a
# process of this warehouse once wrote it, not that it is the newest: kept_versions.py finds that out.


_BEGIN, _END = b', "mac": "', b'"}\n'
_DIGITS = 64
_LENGTH = len(_BEGIN) + _DIGITS + len(_END)


class _Kept(msgspec.Struct, frozen=True):
    """What a manifest holds besides the list of files. `digest` and `transactions` are those of the snapshot."""

    table: TableHead
    transactions: dict[str, int | None]
    digest: str


class ListedSegment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A live file, as the manifest lists it. `id` is the path, too."""

    id: str
    path: str
    row_count: int | None
    size_bytes: int
    schema_version: int
    status: str
    min_seq: int | None
    max_seq: int | None
    created_at: int
    partition: dict[str, str | None] = {}
    stats: str | None = None


class Manifest(msgspec.Struct, frozen=True):
    """What is read of a manifest. `segments` is None in one that has a summary of them, `snapshot` where it keeps none."""

    delta_version: int
    segments: list[ListedSegment] | None = None
    snapshot: _Kept | None = None


_decoder = msgspec.json.Decoder(Manifest)


def parsed_manifest(text: bytes) -> Manifest | None:
    """None where it cannot be parsed, as a later release's may not."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def kept_part(snapshot: Snapshot) -> bytes:
    """Returns what is kept of the snapshot besides its files, as JSON."""
    return msgspec.json.encode(_Kept(snapshot.head, dict(snapshot.transactions), snapshot.digest))


def sign(text: bytes, key: str) -> bytes:
    """Closes a JSON object, of which `text` is all but the last brace, with its MAC."""
    return text + _BEGIN + _mac(text, key) + _END


def verified(text: bytes, key: str, app_id: str) -> Snapshot | None:
    """Returns the version that a manifest keeps; None where it keeps none under this key. `app_id` is the watermark's."""
    body, end = text[:-_LENGTH], text[-_LENGTH:]
    if not key or not hmac.compare_digest(end, _BEGIN + _mac(body, key) + _END):
        return None
    found = parsed_manifest(text)
    if found is None or found.segments is None or found.snapshot is None:
        return None
    files = tuple(_file(each) for each in found.segments)
    stats: Mapping[str, str] = {each.path: each.stats for each in found.segments if each.stats is not None}
    kept = found.snapshot
    return Snapshot(found.delta_version, kept.table, files, stats, app_id, kept.transactions, kept.digest)


def _file(each: ListedSegment) -> DataFile:
    partition = tuple(each.partition.items())
    return DataFile(
        each.path, each.size_bytes, each.row_count, each.created_at, each.min_seq, each.max_seq, each.schema_version, partition
    )


def _mac(text: bytes, key: str) -> bytes:
    return hmac.digest(key.encode(), text, "sha256").hex().encode()


# The last commits of logs on object stores, as this process saw them: a checkpoint is made of them and reads none again.
#
# A chain is the commits of one log, each directly behind the one before. Its last one was read, and its digest compared, at a
# flush's look; then this process created the next, which is refused unless it is that. No two commits are equal, and a log gives
# each name once: where the last commit of a chain is in a log, so are those below it. A log that was swept and begun again, or
# came from a backup, has another commit there, and with the look at that a new chain begins
# (docs/decisions/0151-keys-in-columns-and-chains-of-commits.md).

_MOST_CHAINED = 32 << 20
"""Of all chains. A commit of a small flush has some two thousand."""

_CHAIN_SHARE = 16
"""A chain with more than this part of them is not kept."""

_LONGEST = 20
"""Commits of a chain, as many as a checkpoint is made of."""


@dataclass(frozen=True)
class _Chain:
    version: int
    """Of the last commit."""
    digest: str
    texts: tuple[bytes, ...]


class CommitChains:
    """By the URI of the table. Safe for threads: of two that put a chain at once, either is one."""

    def __init__(self) -> None:
        self._chains: Recent[str, _Chain] = Recent(_MOST_CHAINED, _CHAIN_SHARE)

    def was_read(self, location: Location, version: int, text: bytes, digest: str) -> None:
        """Takes the commit that a look read, whose digest is the expected one."""
        chain = self._chains.get(location.uri)
        if chain is None or (chain.version, chain.digest) != (version, digest):
            self._put(location, _Chain(version, digest, (text,)))

    def was_made(self, location: Location, version: int, text: bytes, before: str) -> str:
        """Takes the commit that this process made, directly behind the one with the digest `before`; returns its own digest."""
        chain = self._chains.get(location.uri)
        follows = chain is not None and (chain.version, chain.digest) == (version - 1, before)
        texts = (*chain.texts, text) if chain is not None and follows else (text,)
        chain = _Chain(version, sha256(text).hexdigest(), texts[-_LONGEST:])
        self._put(location, chain)
        return chain.digest

    def upto(self, location: Location, version: int) -> dict[str, bytes]:
        """By name, the commits of the chain that ends with this version; empty where there is none."""
        chain = self._chains.get(location.uri)
        if chain is None or chain.version != version:
            return {}
        first = version - len(chain.texts) + 1
        return {commit_name(number): text for number, text in enumerate(chain.texts, first)}

    def _put(self, location: Location, chain: _Chain) -> None:
        if local_path(location.uri) is None:  # on a disk, reading costs next to nothing, and delta-rs reads it itself
            self._chains.put(location.uri, chain, sum(map(len, chain.texts)))


CHAINS = CommitChains()
"""Those of this process."""
