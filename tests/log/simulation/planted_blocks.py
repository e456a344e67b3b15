"""Transaction blocks with one of their rules taken away."""

from __future__ import annotations

from dataclasses import replace

from tests.log.simulation.blocks import BlockWriter, Removals
from tests.log.simulation.planted import Fault
from tests.log.simulation.schedule import BLOCKS
from tests.log.simulation.stores import Row


class _ComparesNothing(BlockWriter):
    def is_over(self, user: str, there: dict[str, Row], removals: Removals) -> bool:
        return self._removals() != removals


class _ForgetsErasures(BlockWriter):
    def is_over(self, user: str, there: dict[str, Row], removals: Removals) -> bool:
        return super().is_over(user, there, self._removals())


class _CommitsBesideAnErasure(BlockWriter):
    """An erasure that is under way has removed nothing yet."""

    def is_over(self, user: str, there: dict[str, Row], removals: Removals) -> bool:
        seen = any((there[key].seq if key in there else None) != seq for key, seq in self._seen.items())
        return seen or self._removals() != removals


class _ComparesWithTheNewest(BlockWriter):
    """With what the block saw last of a key, and not with what it saw first."""

    def _keep(self, user: str, key: str) -> None:
        self._seen.pop(key, None)
        super()._keep(user, key)


BLOCK_FAULTS = (
    Fault("a block is written whatever others wrote", roles=replace(BLOCKS, block_writer=_ComparesNothing)),
    Fault("a block that began before an erasure is written behind it", roles=replace(BLOCKS, block_writer=_ForgetsErasures)),
    Fault("a block is written while its user is erased", roles=replace(BLOCKS, block_writer=_CommitsBesideAnErasure)),
    Fault("a block compares with what it saw last", roles=replace(BLOCKS, block_writer=_ComparesWithTheNewest)),
)
