"""Transaction blocks. Each statement takes effect by itself, so a block can be ended, but nothing in it can be undone."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakewarden.serve.postgres.wire.problems import FAILED_BLOCK, UNSUPPORTED, Problem

_NO_BLOCK = "25P01"
_NO_SAVEPOINT = "3B001"


@dataclass
class Block:
    """The block of one connection: none, open, or failed."""

    open: bool = False
    failed: bool = False
    read_only: bool = False
    _writes: int = 0
    """Statements of the block that changed something."""
    _savepoints: list[tuple[str, int]] = field(default_factory=list)

    @property
    def status(self) -> bytes:
        return b"E" if self.failed else b"T" if self.open else b"I"

    def check(self) -> None:
        """Raises:
        Problem: the block failed, so that no statement runs until it is ended.
        """
        if self.failed:
            raise Problem(FAILED_BLOCK, "an earlier statement of this block failed: ROLLBACK ends the block")

    def begin(self, *, read_only: bool) -> None:
        self.check()
        if not self.open:
            self.open, self.read_only = True, read_only

    def wrote(self) -> None:
        if self.open:
            self._writes += 1

    def fail(self) -> None:
        self.failed = self.open

    def commit(self) -> str:
        """Ends the block; returns what was done. Raises as `roll_back`, which this is for a block that failed."""
        if self.failed:
            return self.roll_back()
        self._end()
        return "COMMIT"

    def roll_back(self) -> str:
        """Ends the block.

        Raises:
            Problem: it changed something, which stays.
        """
        writes = self._writes
        self._end()
        _check_undone(writes)
        return "ROLLBACK"

    def save(self, name: str) -> None:
        self._check_open("SAVEPOINT")
        self.check()
        self._savepoints.append((name, self._writes))

    def release(self, name: str) -> None:
        self.check()
        del self._savepoints[self._place(name) :]

    def roll_back_to(self, name: str) -> None:
        """Raises as `roll_back`."""
        place = self._place(name)
        del self._savepoints[place + 1 :]
        self.failed = False
        writes, self._savepoints[place] = self._writes - self._savepoints[place][1], (name, self._writes)
        _check_undone(writes)

    def _place(self, name: str) -> int:
        self._check_open(f"savepoint {name}")
        places = [place for place, (known, _) in enumerate(self._savepoints) if known == name]
        if not places:
            raise Problem(_NO_SAVEPOINT, f"there is no savepoint {name!r}")
        return places[-1]

    def _check_open(self, what: str) -> None:
        if not self.open:
            raise Problem(_NO_BLOCK, f"{what} works in a block alone: BEGIN first")

    def _end(self) -> None:
        self.open = self.failed = self.read_only = False
        self._writes = 0
        self._savepoints = []


def _check_undone(writes: int) -> None:
    if writes:
        raise Problem(
            UNSUPPORTED,
            f"{writes} statements of the block changed something, each by itself, and that stays: there are no transactions of"
            " several statements, so nothing was rolled back",
        )
