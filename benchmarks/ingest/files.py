"""The files that are ingested: many small ones, some of them broken, or a large one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HEADER = "id,day,kind,amount,note\n"
_KINDS = ("login", "order", "payment", "refund", "logout", "search", "view")
_BROKEN: tuple[Callable[[str], bytes], ...] = (
    lambda text: (text + "1,2\n").encode(),  # a record that ends too soon
    lambda text: (text + "x,1,login,2.5,other\n").encode(),  # a text among numbers
    lambda text: text.encode() + b"1,1,\xff\xfe,2.5,no text\n",
    lambda text: text.encode("utf-16"),
    lambda text: b"",
)
_THREADS = 16
_ROWS_AT_ONCE = 50_000


def lines(first: int, count: int) -> str:
    """Records with consecutive ids."""
    return "".join(
        f"{number},{number % 365},{_KINDS[number % len(_KINDS)]},{number * 0.25},note number {number}\n"
        for number in range(first, first + count)
    )


def small(files: int, rows: int, broken: int) -> Iterator[tuple[str, bytes]]:
    """Names and contents; the broken ones are spread among the others, and are none of the first."""
    bad = {(number + 1) * files // (broken + 1): number for number in range(broken)}
    for number in range(files):
        text = HEADER + lines(number * rows, rows)
        content = _BROKEN[bad[number] % len(_BROKEN)](text) if number in bad else text.encode()
        yield f"part-{number:06}.csv", content


def put_all(put: Callable[[str, bytes], object], files: Iterator[tuple[str, bytes]]) -> int:
    """Uploads them from some threads; returns how many bytes."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return sum(pool.map(lambda file: (put(*file), len(file[1]))[1], files))


def write_large(path: Path, size: int) -> int:
    """Writes one file of at least this many bytes; returns how many rows it has."""
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        while file.tell() < size:
            file.write(lines(rows, _ROWS_AT_ONCE))
            rows += _ROWS_AT_ONCE
    return rows
