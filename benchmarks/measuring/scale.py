"""The sizes of each benchmark. The project's targets refer to `full`; the others have its shape and take less time."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class IngestScale:
    """Files that a pipeline takes."""

    files: int
    rows: int
    """Of each of them."""
    broken: int
    large: int
    """Bytes of the one large file."""
    kills: int
    kill_within: tuple[float, float]
    """Seconds after a start."""


@dataclass(frozen=True)
class ServeScale:
    """Requests of clients of one server."""

    clients: tuple[int, ...]
    turns: int
    small: int
    """Look-ups, and inserts of a row, of all clients in a turn."""
    large: int
    """Inserts of many rows, and large results."""
    bulk_rows: int
    result_rows: int


@dataclass(frozen=True)
class Scale:
    name: str
    scopes: int
    """Of the flush and maintenance benchmarks."""
    existing: int
    """Rows of a scope before a flush."""
    new: int
    """Rows that a flush brings to a scope; half of them replace existing ones."""
    rounds: int
    """Measurements of which the median counts."""
    sample: int
    """Scopes on which one statement a scope is measured, before it is extrapolated to all."""
    growth: tuple[int, ...]
    """Existing scopes, and dirty scopes; the first is also how many are dirty among the existing ones."""
    quiet: tuple[int, ...]
    """Scopes in which nothing is to do; most of them do not exist."""
    flushes: int
    """Of one scope, for its last to be compared with its 10th."""
    files: int
    """Of a scope before it is optimized."""
    appends: int
    """Single-row appends."""
    bulk_rows: int
    bulk_users: int
    query_cold: int
    """Rows of the scope that is queried, in its table; `query_hot` of them in the log besides."""
    query_hot: int
    query_turns: int
    query_heavy: float
    """Seconds that a statement is given beside which the others are measured."""
    large: tuple[int, int]
    """Rows and partitions of the one large table."""
    partitions: tuple[int, tuple[int, int]]
    """Rows of a table, and into how many partitions they are divided, once into few and once into many."""
    ingest: IngestScale
    spark: tuple[int, int]
    """Scopes that Spark reads, and rows of each."""
    serve: ServeScale
    fold: tuple[int, int]
    """Scopes, and flushes of each of them."""
    fold_days: tuple[int, int]
    """Scopes of unequal traffic that are simulated, and for how many days."""
    fold_real: tuple[int, int]
    """The same on the real product."""
    surveyed: int
    """Tables of others."""


FULL = Scale(
    name="full",
    scopes=1_000,
    existing=1_000,
    new=200,
    rounds=3,
    sample=15,
    growth=(100, 1_000, 10_000),
    quiet=(10_000, 100_000, 1_000_000),
    flushes=500,
    files=6,
    appends=2_000,
    bulk_rows=1_000_000,
    bulk_users=10_000,
    query_cold=100_000,
    query_hot=1_000,
    query_turns=51,
    query_heavy=5.0,
    large=(20_000_000, 200),
    partitions=(3_000_000, (1_000, 10_000)),
    ingest=IngestScale(10_000, 100, 50, 2 << 30, 10, (1.0, 4.0)),
    spark=(4_000, 2_500),
    serve=ServeScale((1, 16, 64), 2, 640, 16, 10_000, 1_000_000),
    fold=(10, 500),
    fold_days=(50, 90),
    fold_real=(50, 6),
    surveyed=10_000,
)
LARGE = replace(FULL, name="large", large=(100_000_000, 1_000))
"""`make bench-large`: an hour or more."""
SMALL = Scale(
    name="small",
    scopes=200,
    existing=1_000,
    new=200,
    rounds=3,
    sample=5,
    growth=(100, 300, 1_000),
    quiet=(1_000, 10_000, 100_000),
    flushes=100,
    files=6,
    appends=300,
    bulk_rows=100_000,
    bulk_users=1_000,
    query_cold=100_000,
    query_hot=1_000,
    query_turns=11,
    query_heavy=5.0,
    large=(2_000_000, 50),
    partitions=(300_000, (100, 1_000)),
    ingest=IngestScale(1_000, 100, 50, 100 << 20, 10, (1.0, 8.0)),
    spark=(400, 2_500),
    serve=ServeScale((1, 16, 64), 1, 128, 4, 10_000, 100_000),
    fold=(10, 100),
    fold_days=(20, 30),
    fold_real=(20, 3),
    surveyed=2_000,
)
TINY = Scale(
    name="tiny",
    scopes=4,
    existing=10,
    new=4,
    rounds=1,
    sample=1,
    growth=(2, 4),
    quiet=(3, 30),
    flushes=12,
    files=3,
    appends=5,
    bulk_rows=100,
    bulk_users=10,
    query_cold=100,
    query_hot=10,
    query_turns=1,
    query_heavy=0.2,
    large=(200, 4),
    partitions=(200, (2, 4)),
    ingest=IngestScale(30, 5, 5, 1 << 20, 1, (1.0, 1.5)),
    spark=(4, 10),
    serve=ServeScale((1, 2), 1, 4, 2, 10, 100),
    fold=(2, 6),
    fold_days=(3, 3),
    fold_real=(2, 1),
    surveyed=8,
)

SCALES = {scale.name: scale for scale in (FULL, LARGE, SMALL, TINY)}
