"""Default functions draw on the clock, the ids and the user that they are given, and on nothing else."""

from __future__ import annotations

import multiprocessing
import re
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from lakewarden.base.clock import random_id, system_clock
from lakewarden.catalog.column_types import ColumnType
from lakewarden.catalog.model import SchemaColumn
from lakewarden.tables.rows.defaults import PROCESS_SNOWFLAKE, Defaults, Snowflake
from lakewarden.tables.rows.intake import to_arrow
from lakewarden.tables.rows.validate import validated
from tests.tables.rows.build import MESSAGES, NOW, defaults


def column(type: str, default: str | None) -> SchemaColumn:
    return SchemaColumn(1, "c", ColumnType.parse(type), True, default)


def values(type: str, default: str | None, count: int = 3) -> list[object]:
    array = defaults().values(column(type, default), count, NOW)
    assert array.type == ColumnType.parse(type).arrow
    return list(array.to_pylist())


@pytest.mark.parametrize(
    ("type", "default", "value"),
    [
        ("INT", None, None),
        ("INT", "NULL", None),
        ("INT", "7", 7),
        ("DECIMAL(10,2)", "1.5", Decimal("1.50")),
        ("TEXT", "'x'", "x"),
        ("TIME", "'00:00:01'", 1_000_000),
        ("BYTES", "X'00ff'", b"\x00\xff"),
        ("TIMESTAMP", "NOW()", NOW),
        ("TIMESTAMP", "CURRENT_TIMESTAMP()", NOW),
        ("TEXT", "CURRENT_USER()", "u_42"),
    ],
)
def test_some_are_the_same_for_every_row(type: str, default: str | None, value: object) -> None:
    assert values(type, default) == [value] * 3


@pytest.mark.parametrize("type", ["UUID", "TEXT"])
def test_uuids_are_of_their_version(type: str) -> None:
    four = [uuid.UUID(str(value)) for value in values(type, "GENERATE_UUID()")]
    seven = [uuid.UUID(str(value)) for value in values(type, "UUID_V7()")]
    assert {one.version for one in four} == {4}
    assert {one.version for one in seven} == {7}
    assert {one.variant for one in four + seven} == {uuid.RFC_4122}
    assert len({*four, *seven}) == 6
    assert {one.int >> 80 for one in seven} == {int(NOW.timestamp() * 1000)}


def test_ulids_begin_with_their_time() -> None:
    found = values("TEXT", "ULID()")
    assert len(set(found)) == 3
    assert all(re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", str(value)) for value in found)
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    begins = {sum(alphabet.index(digit) << (5 * (9 - at)) for at, digit in enumerate(str(value)[:10])) for value in found}
    assert begins == {int(NOW.timestamp() * 1000)}


def test_current_user_is_each_rows_own() -> None:
    array = defaults().values(column("TEXT", "CURRENT_USER()"), 2, NOW, pa.array(["a", "b"]))
    assert array.to_pylist() == ["a", "b"]


def test_one_call_has_one_moment_and_one_user_a_row() -> None:
    ticking = iter(range(100))
    ids = Defaults(lambda: NOW + timedelta(seconds=next(ticking)), random_id, None)
    table = validated(MESSAGES, to_arrow([{"id": number} for number in range(3)], MESSAGES), ids)
    assert table["at"].to_pylist() == [NOW] * 3


def test_snowflakes_ascend_whatever_the_clock_does() -> None:
    snowflake = Snowflake(random_id)
    moments = [NOW, NOW + timedelta(days=1), NOW - timedelta(days=1), NOW]
    taken = [number for moment in moments for number in snowflake.take(1000, moment)]
    assert taken == sorted(set(taken))
    assert 0 < taken[0] < taken[-1] < 2**63
    assert Snowflake(random_id).take(1, NOW + timedelta(days=36_500))[0] < 2**63


def test_snowflakes_follow_time_between_generators() -> None:
    early, late = Snowflake(random_id), Snowflake(random_id)
    assert late.take(1, NOW)[0] < early.take(1, NOW + timedelta(seconds=1))[0]


def _take(count: int) -> list[int]:
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda _: PROCESS_SNOWFLAKE.take(count // 10, system_clock()), range(10))
    return [number for part in parts for number in part]


@pytest.mark.slow
def test_snowflakes_differ_between_processes_and_threads() -> None:
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        taken = [number for part in pool.map(_take, [20_000] * 6) for number in part]
    assert len(set(taken)) == 120_000
