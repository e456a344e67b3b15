"""Which files an optimize packs together, which ones a compaction takes, and whether that is worth rewriting their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, takewhile

from lakewarden.base.quantities import in_units, portions
from lakewarden.catalog.kept_settings import TailRule
from lakewarden.delta.parquet.files import DataFile, by_place

ZORDER = "zorder_by"
TARGET = "target_file_size"
MIN_GAIN = "min_gain"
RATIO = "ratio"
"""The names of an optimize's parameters in its reports and commits."""

FULL = 0.75

CLUSTERED_BYTES = 256 << 20
"""Files of this many bytes are clustered together: their rows are in memory, where they take some five times as much."""


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
    if len(files) <= 1:  # as most scopes have behind a flush, whose notes ask this of each
        return not_worth_it(Packing((), (), tuple(files)), min_gain)
    plain = not_worth_it(pack_files(files, target_size), min_gain)
    return plain or (not_worth_it(pack_files(files, target_size, ratio), min_gain) if ratio else "")


def _pack(files: Sequence[DataFile], target_size: int, ratio: float) -> Packing:
    full = tuple(file for file in files if file.size >= FULL * target_size)
    small = sorted((file for file in files if file.size < FULL * target_size), key=lambda file: (-file.size, file.path))
    large = small[: _too_large([file.size for file in small], ratio)] if ratio else []
    small = small[len(large) :]
    bins: dict[int, list[DataFile]] = {}
    for file, place in zip(small, first_fit([file.size for file in small], target_size), strict=True):
        bins.setdefault(place, []).append(file)
    order = {file.path: index for index, file in enumerate(files)}
    packed = tuple(tuple(sorted(some, key=lambda file: order[file.path])) for some in bins.values() if len(some) > 1)
    return Packing(packed, full, tuple(some[0] for some in bins.values() if len(some) == 1), tuple(large))


def first_fit(sizes: Sequence[int], room: int) -> list[int]:
    """Returns for each size the number of the first bin that has room for it behind those before.

    A tree over the bins knows the largest room of each half, so 100,000 files take half a second: to try bin after bin takes a
    time that grows with the square of their number.

    Args:
        sizes: none above `room`.
        room: of an empty bin.
    """
    leaves = 1 << len(sizes).bit_length()
    rooms = [room] * (2 * leaves)  # of node n: that of its halves 2n and 2n + 1; those of bins are the last half of the list
    found = []
    for size in sizes:
        node = 1
        while node < leaves:
            node = 2 * node + (rooms[2 * node] < size)
        found.append(node - leaves)
        rooms[node] -= size
        while node := node // 2:
            rooms[node] = max(rooms[2 * node], rooms[2 * node + 1])
    return found


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
    return tuple(tuple(run) for some in by_place(files).values() for run in portions(some, lambda file: file.size, most))


def not_worth_it(packing: Packing, min_gain: float) -> str:
    """Returns why the rewrite saves too little; empty where it is worth its bytes."""
    if not packing.bins:
        if packing.files <= 1:
            return f"it has {packing.files} file"
        return f"none of its {packing.files} files can be packed: {packing.left()}"
    if packing.gain < min_gain:
        return (
            f"rewriting {in_units(packing.bytes)} would save {packing.saved} of {packing.files} files ({packing.gain:.0%}),"
            f" below the {min_gain:.0%} that make it worth while"
        )
    return ""


# Which files a compaction takes: of the trailing run of small files of one schema (Storage Tiers; kalamdb.md 4.7) those whose
# rows are worth to be written again.
#
# Without a ratio each compaction takes the file that the one before made, until that is full: a row is written again by every
# one. With a ratio a file waits until the newer ones together are as many times as large as it, so its rows are written again a
# number of times that grows with the logarithm of the scope (docs/decisions/0124-a-fold-leaves-what-it-folded.md).


def rule_of(parameters: Mapping[str, str]) -> TailRule:
    """The rule that a compaction's report names."""
    fewest, most, rows = (int(parameters[name]) for name in ("min_eligible_segments", "max_segments_per_run", "max_segment_rows"))
    return TailRule(fewest, most, rows, float(parameters.get("ratio", "0")))


def small_run(newest_first: Sequence[DataFile], rule: TailRule) -> tuple[DataFile, ...]:
    """The newest files, up to the first that is not small or has no row count."""
    return tuple(takewhile(lambda file: file.rows is not None and file.rows < rule.max_rows, newest_first))


def fitting(run: Sequence[DataFile], rule: TailRule) -> tuple[DataFile, ...]:
    """The files of a run that one compaction takes, from the newest on; at least two, or none."""
    if len(run) < rule.min_files:
        return ()
    sums = list(accumulate(file.rows or 0 for file in run[: rule.max_files]))
    most = sum(rows <= rule.max_rows for rows in sums)
    count = _longest(sums[:most], rule) if rule.ratio else most
    return tuple(run[:count]) if count > 1 else ()


def _longest(sums: Sequence[int], rule: TailRule) -> int:
    """The length of the longest run whose oldest file is small beside the others together; 0 where none is long enough.

    Of all lengths, and not up to the first file that is too large: a tiny newest file ends nothing, nor does a large one among
    many small ones.
    """
    shortest = min(rule.min_files, rule.max_files)
    lengths = range(len(sums), shortest - 1, -1)
    return next((n for n in lengths if sums[n - 1] - sums[n - 2] <= rule.ratio * sums[n - 2]), 0)
