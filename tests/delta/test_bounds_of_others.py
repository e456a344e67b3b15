"""Whoever wrote a file's statistics, a look-up finds each of its rows, an upsert replaces it, and a deleted row stays gone."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.bounds import Bound, files_within
from lakewarden.delta.reading.rows import read_rows
from tests.delta.scopes import Row, flush, paths, rows_of, schema, table_of, target

_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _numbers(of: random.Random, digits: int, scale: int) -> Iterator[Decimal]:
    """In pairs that lie a unit apart: of any length, about 2^53, 2^63 and 2^64, and at the ends."""
    top = 10**digits - 1
    for near in [0, 2**53, 2**63, 2**64, top - 1, *(of.randrange(10 ** of.randrange(1, digits + 1)) for _ in range(2))]:
        for unscaled in (near, near + 1, -near, -near - 1):
            if abs(unscaled) <= top:
                yield Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def _texts(of: random.Random) -> Iterator[str]:
    letters = "aé\u7fff\ud7ff\ue000\ufffd\uffff\U0001f600\U0010ffff~\x7f\x00 "
    for length in (0, 31, 32, 64, 65):
        head = "".join(of.choices(letters, k=length))
        yield head
        yield from (head + of.choice(letters) for _ in range(2))


def _moments(of: random.Random) -> Iterator[datetime]:
    yield from (_FIRST, _FIRST + _MICROSECOND, _LAST - _MICROSECOND, _LAST)
    for year in (1400, 1582, 1892, 1969, 1970, 2024, 9999):
        near = datetime(year, 1, 1, tzinfo=UTC) + timedelta(microseconds=of.randrange(-(10**6), 10**6))
        yield from (near, near + _MICROSECOND, near + timedelta(microseconds=999))


def _days(of: random.Random) -> Iterator[date]:
    yield from (date(1, 1, 1), date(1, 1, 2), date(9999, 12, 30), date(9999, 12, 31))
    for year in (1400, 1582, 1970, 2024):
        near = date(year, 10, of.randrange(1, 20))
        yield from (near, near + timedelta(1))


def _whole(bits: int) -> Callable[[random.Random], Iterator[int]]:
    def numbers(of: random.Random) -> Iterator[int]:
        top = 2 ** (bits - 1)
        yield from (-top, 1 - top, top - 2, top - 1)
        for _ in range(2):
            near = of.randrange(1 - top, top - 1) >> of.randrange(bits)
            yield from (near, near + 1)

    return numbers


_TYPES: Mapping[str, Callable[[random.Random], Iterator[Any]]] = {
    "DECIMAL(18,2)": lambda of: _numbers(of, 18, 2),
    "DECIMAL(38,0)": lambda of: _numbers(of, 38, 0),
    "DECIMAL(38,10)": lambda of: _numbers(of, 38, 10),
    "DECIMAL(38,38)": lambda of: _numbers(of, 38, 38),
    "DECIMAL(3,2)": lambda of: _numbers(of, 3, 2),
    "DECIMAL(5,5)": lambda of: _numbers(of, 5, 5),
    "TEXT": _texts,
    "TIMESTAMP": _moments,
    "DATE": _days,
    "SMALLINT": _whole(16),
    "INT": _whole(32),
    "BIGINT": _whole(64),
    "BOOLEAN": lambda _: iter((False, True)),
    "BYTES": lambda of: (text.encode() for text in _texts(of)),
}


def _file_by_file(scope: ScopeTarget) -> None:
    """Each row in a file of its own, whose bounds are its value."""
    delta = DeltaTable(scope.uri)
    rows = delta.to_pyarrow_table()
    delta.delete()
    for place in range(rows.num_rows):
        write_deltalake(scope.uri, rows.slice(place, 1), mode="append")


def _compacted(scope: ScopeTarget) -> None:
    DeltaTable(scope.uri).optimize.compact()


def _z_ordered(scope: ScopeTarget) -> None:
    DeltaTable(scope.uri).optimize.z_order(["k"])


def _restored(scope: ScopeTarget) -> None:
    """Its own rewriting of our statistics: a version without the files, and back."""
    delta = DeltaTable(scope.uri)
    delta.delete("v = 0")
    delta.restore(delta.version() - 1)


def _as_spark(scope: ScopeTarget) -> None:
    """The statistics of each file as Spark and Delta 2 write them, in a session of Berlin's zone."""
    log = Path(scope.uri) / "_delta_log"
    actions = [json.loads(line) for file in sorted(log.glob("*.json")) for line in file.read_text().splitlines()]
    live = paths(scope)
    adds = [action["add"] for action in actions if "add" in action and action["add"]["path"] in live]
    lines = [{"commitInfo": {"operation": "COMPUTE STATS", "timestamp": 1}}]
    lines += [{"add": add | {"stats": _spark_stats(Path(scope.uri) / add["path"])}} for add in adds]
    (log / f"{table_of(scope).version + 1:020d}.json").write_text("\n".join(map(json.dumps, lines)))


def _spark_stats(path: Path) -> str:
    rows = pq.read_table(path)
    values = rows.column("k").to_pylist()
    ends: dict[str, Any] = {"minValues": {}, "maxValues": {}}
    if not isinstance(values[0], bool | bytes):
        order = sorted(values, key=_order)
        ends = {"minValues": {"k": _spark(order[0], top=False)}, "maxValues": {"k": _spark(order[-1], top=True)}}
    text = json.dumps({"numRecords": len(values), **ends, "nullCount": {"k": 0}})
    return text.replace('"#', "").replace('#"', "")


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _spark(value: Any, *, top: bool) -> Any:
    match value:
        case Decimal():
            return f"#{value:f}#"
        case str():
            # the 32 of Delta 2 count units of UTF-16
            units = value.encode("utf-16-le")
            head, rest = units[:64].decode("utf-16-le", "replace"), units[64:]
            return head + "\ufffd" if top and rest else head.replace("\ufffd", "?") if rest else head
        case datetime():
            shift = timedelta(seconds=3208) if value.year < 1893 else timedelta(hours=1)
            try:
                local = (value + shift).replace(tzinfo=None)
            except OverflowError:
                return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            return f"{local.isoformat(timespec='milliseconds')}{'+00:53' if value.year < 1893 else '+01:00'}"
        case date():
            return value.isoformat()
    return value


def _file_by_file_as_spark(scope: ScopeTarget) -> None:
    _file_by_file(scope)
    _as_spark(scope)


_WRITERS: Mapping[str, Callable[[ScopeTarget], None]] = {
    "ours": lambda scope: None,
    "compacted": _compacted,
    "z-ordered": _z_ordered,
    "restored": _restored,
    "file by file": _file_by_file,
    "as Spark": _as_spark,
    "file by file as Spark": _file_by_file_as_spark,
}


def _cases() -> Iterator[tuple[str, str]]:
    return ((type_, writer) for type_ in _TYPES for writer in _WRITERS)


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.covering
@pytest.mark.parametrize(("type_", "writer"), _cases())
def test_each_row_is_found_replaced_and_deleted(tmp_path: Path, type_: str, writer: str) -> None:
    of = random.Random(f"{type_} {writer}")
    values = list(dict.fromkeys(_TYPES[type_](of)))
    of.shuffle(values)
    scope = target(tmp_path / "t", schema(f"k {type_} NOT NULL", "v INT", key=["k"]))
    flush(scope, _rows(values[::2], 0))
    flush(scope, _rows(values[1::2], 0), first_seq=1000)
    _WRITERS[writer](scope)
    assert _missed(scope, values) == []
    changed, gone = values[: len(values) // 2], values[len(values) // 2 :]
    flush(scope, _rows(changed, 2), first_seq=3000)
    flush(scope, deletes=_rows(gone, 0), first_seq=4000)
    assert {row["k"]: row["v"] for row in rows_of(scope)} == dict.fromkeys(changed, 2)
    assert len(rows_of(scope)) == len(changed)


def _rows(values: Sequence[Any], number: int) -> list[Row]:
    return [{"k": value, "v": number} for value in values]


def _missed(scope: ScopeTarget, values: Sequence[Any]) -> list[Any]:
    """The values that a look-up within bounds does not find."""
    table, missed = table_of(scope), []
    for value in values:
        bounds = [Bound("k", value, value), Bound("k", value), Bound("k", None, value)]
        for bound in bounds if not isinstance(value, bool | bytes) else ():
            found = read_rows(table, scope.schemas, ["k"], [bound]).column("k").to_pylist()
            if value not in found:
                missed.append((bound, value))
    return missed


def test_statistics_still_pass_files_over(tmp_path: Path) -> None:
    """What is not worth a digit is worth something still."""
    scope = target(tmp_path / "t", schema("k DECIMAL(18,2) NOT NULL", "v INT", key=["k"]))
    for number in range(4):
        flush(scope, _rows([Decimal(f"12345678901{number}000.67")], 0), first_seq=number)
    bound = Decimal("123456789011000.67")
    assert len(files_within(table_of(scope), [Bound("k", bound, bound)])) == 1
