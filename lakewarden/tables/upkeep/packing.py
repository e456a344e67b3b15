"""Which files an optimize packs together, and whether that is worth rewriting their bytes.

The rule, in whole:

A partition is packed by itself, and the first two rules hold in it.

1. A file of three quarters of the target size or more is *full*: it stays. So no file is rewritten for a small gain, and a
   byte is rewritten a few times in a scope's life, not at every run.
2. The others go into bins of at most the target size, the largest file first, each into the first bin with room. A bin
   of one file stays as it is: *alone*. A bin of several becomes one file, so that at most one target size of bytes is
   rewritten for every file that is saved.
3. With a ratio, a file stays that has more than so many times the bytes of all smaller ones in its partition: else each run
   would rewrite the file that the one before made. 0 is none.
4. The files saved (files in the bins, less one a bin), as a share of all live files, must reach `min_gain`. Otherwise
   nothing is done: what listing, opening and planning would gain is not worth the bytes. With a ratio, that has to be so with it
   and without it, so that the rule with a ratio finds nothing to do where the one without finds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from lakewarden.delta.parquet.files import DataFile, by_place

ZORDER = "zorder_by"
TARGET = "target_file_size"
MIN_GAIN = "min_gain"
RATIO = "ratio"
"""The names of an optimize's parameters in its reports and commits."""

FULL = 0.75

CLUSTERED_BYTES = 256 << 20
"""Files of so many bytes are clustered together: their rows are in memory, where they take some five times as much."""


@dataclass(frozen=True)
class Packing:
    """`bins` become one file each; `full`, `large` and `alone` are left."""

    bins: tuple[tuple[DataFile, ...], ...]
    full: tuple[DataFile, ...]
    alone: tuple[DataFile, ...]
    large: tuple[DataFile, ...] = ()
    """Those that the ratio leaves."""

    @property
    def inputs(self) -> tuple[DataFile, ...]:
        return tuple(file for packed in self.bins for file in packed)

    @property
    def saved(self) -> int:
        return len(self.inputs) - len(self.bins)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.inputs)

    @property
    def files(self) -> int:
        """All live files."""
        return len(self.inputs) + len(self.full) + len(self.alone) + len(self.large)

    @property
    def gain(self) -> float:
        return self.saved / self.files if self.files else 0.0

    def left(self) -> str:
        """The files that are left and why, for the report; empty where none are."""
        counts = {
            "full": len(self.full),
            "large beside the others": len(self.large),
            "without a partner that fits": len(self.alone),
        }
        return ", ".join(f"{count} {why}" for why, count in counts.items() if count)


def pack_files(files: Sequence[DataFile], target_size: int, ratio: float = 0.0) -> Packing:
    """Applies rules 1 to 3 to each partition. Files within a bin keep their order."""
    packings = [_pack(some, target_size, ratio) for some in by_place(files).values()]
    return Packing(
        tuple(chain(*(each.bins for each in packings))),
        tuple(chain(*(each.full for each in packings))),
        tuple(chain(*(each.alone for each in packings))),
        tuple(chain(*(each.large for each in packings))),
    )


def why_not(files: Sequence[DataFile], target_size: int, min_gain: float, ratio: float = 0.0) -> str:
    """Applies rule 4: returns why nothing is rewritten; empty where that is worth its bytes."""
    plain = not_worth_it(pack_files(files, target_size), min_gain)
    return plain or (not_worth_it(pack_files(files, target_size, ratio), min_gain) if ratio else "")


def _pack(files: Sequence[DataFile], target_size: int, ratio: float) -> Packing:
    full = tuple(file for file in files if file.size >= FULL * target_size)
    small = sorted((file for file in files if file.size < FULL * target_size), key=lambda file: (-file.size, file.path))
    large = small[: _too_large([file.size for file in small], ratio)] if ratio else []
    small = small[len(large) :]
    bins: list[list[DataFile]] = []
    rooms: list[int] = []
    for file in small:
        place = next((index for index, room in enumerate(rooms) if room >= file.size), len(bins))
        if place == len(bins):
            bins.append([])
            rooms.append(target_size)
        bins[place].append(file)
        rooms[place] -= file.size
    order = {file.path: index for index, file in enumerate(files)}
    packed = tuple(tuple(sorted(some, key=lambda file: order[file.path])) for some in bins if len(some) > 1)
    return Packing(packed, full, tuple(some[0] for some in bins if len(some) == 1), tuple(large))


def _too_large(sizes: Sequence[int], ratio: float) -> int:
    """How many of these, the largest first, have more than so many times the bytes of those after them together."""
    left, count = sum(sizes), 0
    for size in sizes:
        left -= size
        if size <= ratio * left:
            break
        count += 1
    return count


def runs_to_cluster(files: Sequence[DataFile], target_size: int) -> tuple[tuple[DataFile, ...], ...]:
    """The files of each partition in their order, in runs that a Z-order clusters each by itself.

    A file of a run has its own part of the run's values, so a reader that skips files reads one more for each further run.
    """
    most = max(CLUSTERED_BYTES, target_size)
    runs: list[list[DataFile]] = []
    for some in by_place(files).values():
        room = 0
        for file in some:
            if file is some[0] or file.size > room:
                runs.append([])
                room = most
            runs[-1].append(file)
            room -= file.size
    return tuple(map(tuple, runs))


def not_worth_it(packing: Packing, min_gain: float) -> str:
    """Returns why the rewrite saves too little; empty where it is worth its bytes."""
    if not packing.bins:
        if packing.files <= 1:
            return f"it has {packing.files} file"
        return f"none of its {packing.files} files can be packed: {packing.left()}"
    if packing.gain < min_gain:
        return (
            f"rewriting {packing.bytes} bytes would save {packing.saved} of {packing.files} files ({packing.gain:.0%}),"
            f" below the {min_gain:.0%} that make it worth while"
        )
    return ""
