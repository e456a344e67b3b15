"""The last commits of logs on object stores, as this process saw them: a checkpoint is made of them and reads none again.

A chain is the commits of one log, each directly behind the one before. Its last one was read, and its digest compared, at a
flush's look; then this process created the next, which is refused unless it is that. No two commits are equal, and a log gives
each name once: where the last commit of a chain is in a log, so are those below it. A log that was swept and begun again, or came
from a backup, has another commit there, and with the look at that a new chain begins
(docs/decisions/0151-keys-in-columns-and-chains-of-commits.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from lakewarden.base.connection import Location
from lakewarden.base.recent import Recent
from lakewarden.delta.replay.log_objects import commit_name
from lakewarden.storage.location import local_path

_MOST_BYTES = 32 << 20
"""Of all chains. A commit of a small flush has some two thousand."""

_SHARE = 16
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
        self._chains: Recent[str, _Chain] = Recent(_MOST_BYTES, _SHARE)

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
