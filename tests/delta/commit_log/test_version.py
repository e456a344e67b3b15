"""A version that is known answers as delta-rs does when it has opened it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.scope import open_scope
from lakewarden.delta.table import ScopeTable
from tests.delta.commit_log.test_signature import KEY
from tests.delta.scopes import PEOPLE, flush, schema, table_of, target

_TYPES = schema(
    "id BIGINT NOT NULL",
    "small SMALLINT",
    "whole INT",
    "text TEXT",
    "day DATE",
    "at TIMESTAMP",
    "half FLOAT",
    "full DOUBLE",
    "price DECIMAL(20, 3)",
    "yes BOOLEAN",
    "raw BYTES",
    "none TEXT",
)


def _row(id_: int) -> dict[str, Any]:
    return {
        "id": id_,
        "small": -id_,
        "whole": id_ * 1000,
        "text": f'ü"{id_}' + "x" * 50,
        "day": date(2024, 2, 1 + id_),
        "at": datetime(2024, 5, 1, id_, 30, 0, 123456, UTC),
        "half": id_ / 3,
        "full": -id_ / 7,
        "price": Decimal(f"{id_}00000000000.125"),
        "yes": True,
        "raw": b"\x00",
    }


def _known(scope: ScopeTarget) -> ScopeTable:
    table = open_scope(scope)
    assert table is not None
    assert table.is_kept
    return table


def test_bounds_are_those_that_delta_rs_reads(tmp_path: Path) -> None:
    scope = replace(target(tmp_path / "t", _TYPES), manifest_key=KEY)
    flush(scope, [_row(1), _row(2)])
    flush(scope, [_row(5)], first_seq=10)
    flush(scope, [{"id": 9}], first_seq=20)
    known, opened = _known(scope), table_of(scope)
    compared = [*_TYPES.names, "_seq", "missing"]
    for name in compared:
        ours, theirs = known.bounds(name), opened.bounds(name)
        if ours is None:
            assert name in {"yes", "raw", "half", "full", "missing"}, name
            continue
        if theirs is None:
            assert {*ours[0], *ours[1]} == {None}, name
            continue
        assert [[*map(type, ends)] for ends in ours] == [[*map(type, ends)] for ends in theirs], name
        assert ours == theirs, name


def test_statistics_that_delta_rs_read_are_kept_alike(tmp_path: Path) -> None:
    scope = replace(target(tmp_path / "t", _TYPES), manifest_key=KEY)
    flush(scope, [_row(1), _row(2)])
    written = {name: _ends(_known(scope), name) for name in _TYPES.names}
    (tmp_path / "t" / "manifest.json").unlink()
    flush(scope, [_row(5)], first_seq=10)
    again = {name: _ends(_known(scope), name) for name in _TYPES.names}
    assert {name: ends and ends[0] for name, ends in again.items()} == {name: ends and ends[0] for name, ends in written.items()}


@pytest.mark.parametrize("stats", ['{"minValues":null}', '{"minValues":{"id":NaN}}', '{"minValues":{"id":"one"}}', "[]", "{"])
def test_statistics_in_a_form_of_others_exclude_nothing(tmp_path: Path, stats: str) -> None:
    scope = replace(target(tmp_path / "t", PEOPLE), manifest_key=KEY)
    flush(scope, [{"id": 1}])
    snapshot = _known(scope).snapshot(scope.app_id)
    theirs = replace(snapshot, stats=dict.fromkeys(snapshot.stats or {}, stats))
    assert ScopeTable(scope.location, snapshot).bounds("id") == ([1], [1])
    assert ScopeTable(scope.location, theirs).bounds("id") in (None, ([None], [None]))


def _ends(table: ScopeTable, name: str) -> list[tuple[object, object]] | None:
    bounds = table.bounds(name)
    return None if bounds is None else list(zip(*bounds, strict=True))


def test_what_is_not_known_is_read_from_the_log(tmp_path: Path) -> None:
    scope = replace(target(tmp_path / "t", PEOPLE), manifest_key=KEY)
    flush(scope, [{"id": 1}])
    table = _known(scope)
    assert table.watermark("lakewarden/w/another") is None
    assert table.scan().num_rows == 1


@pytest.mark.parametrize("version", [0, 1])
def test_that_version_is_read_from_the_log_and_no_later_one(tmp_path: Path, version: int) -> None:
    scope = replace(target(tmp_path / "t", PEOPLE), manifest_key=KEY)
    for number in range(version + 1):
        flush(scope, [{"id": number}], first_seq=number)
    table = _known(scope)
    flush(scope, [{"id": 10}], first_seq=10)
    assert table.scan().num_rows == version + 1
