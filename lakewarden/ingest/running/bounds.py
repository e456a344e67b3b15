"""What reading one object may take. What passes a bound rejects the object."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.ingest.templates.object_file import COLUMNS, UNPACKED_BYTES, VALUE_BYTES


@dataclass(frozen=True)
class ReadBounds:
    """The kernel holds memory, processor time and the bytes written; the process that waits holds the time that passes."""

    memory_bytes: int = 512 << 20
    """Above what a worker takes when it is idle. A block of text with its columns takes a tenth of it."""
    cpu_seconds: float = 30.0
    cpu_seconds_per_gib: float = 300.0
    """More for each GiB of the object: reading text takes a tenth of that."""
    wall_seconds: float = 120.0
    wall_seconds_per_gib: float = 1200.0
    """Of these, the time that the store takes does not count."""
    rows: int = 1 << 28
    """As many as get consecutive numbers at once (`log.position.WHOLE`)."""
    output_bytes: int = 16 << 30
    """Of rows in Arrow's form."""
    unpacked_bytes: int = UNPACKED_BYTES
    value_bytes: int = VALUE_BYTES
    """Of one value, and of one record of text."""
    columns: int = COLUMNS

    def cpu(self, size: int) -> float:
        """Seconds of processor time for an object of so many bytes."""
        return self.cpu_seconds + self.cpu_seconds_per_gib * size / (1 << 30)

    def wall(self, size: int) -> float:
        """Seconds for an object of so many bytes."""
        return self.wall_seconds + self.wall_seconds_per_gib * size / (1 << 30)

    def fetched(self, size: int) -> int:
        """Bytes that a template may request of an object of so many bytes: it may read it some times, and not for ever."""
        return (64 << 20) + 8 * size
