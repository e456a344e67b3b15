"""Six of thirty users are erased while the others write, on disk and on a real object store, and a grep of our own finds none."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base.setting_sections import FlushSettings
from lakewarden.base.settings import Settings
from lakewarden.log.chunk import Chunk
from lakewarden.log.objects.pack import pack_segment
from tests.fixtures.bucket import AnyPath, path_of
from tests.fixtures.lakes import NOTES, scope_path, strong

pytestmark = [pytest.mark.both_stores, pytest.mark.slow]

_TABLES = (NOTES, "chat.likes", "chat.rooms")
_USERS = tuple(f"u{number}" for number in range(30))
_ERASED = _USERS[::5]
_KEPT = tuple(user for user in _USERS if user not in _ERASED)
_SETTINGS = Settings(flush=FlushSettings(in_process_below=1000))

Acknowledged = dict[tuple[str, str, int], str]


def _fill(lake: Lakehouse, tokens: dict[str, str]) -> None:
    """Flushed versions, and hot rows in segments that users share; values are stored as they are, for the grep."""
    lake.create_namespace("chat")
    columns = [Column("id", "BIGINT"), Column("text", "TEXT")]
    for name in _TABLES:
        lake.create_table(name, type="USER", columns=columns, primary_key=["id"], options={"COMPRESSION": "none"})
        _write_all(lake, name, 0, tokens)
    lake.flush()
    _write_all(lake, NOTES, 1, {user: tokens[user] for user in _USERS[:12]})  # older versions
    lake.flush()
    for name in _TABLES:
        _write_all(lake, name, 2, tokens)


def _write_all(lake: Lakehouse, name: str, version: int, tokens: dict[str, str]) -> None:
    rows = [{"user": user, "id": version % 2, "text": f"{token} {version}"} for user, token in tokens.items()]
    lake.table(name).write(rows, user_column="user")


@contextmanager
def _others_write(lake: Lakehouse) -> Iterator[list[Acknowledged]]:
    """Two threads that write rows of others, and one that flushes; what was acknowledged."""
    stop = threading.Event()
    acknowledged: list[Acknowledged] = [{}, {}]

    def write(number: int) -> None:
        tables = {name: lake.table(name) for name in _TABLES}
        at = 0
        while not stop.wait(0.1):
            at += 1
            user, name = _KEPT[at % len(_KEPT)], _TABLES[at % 3]
            key = 100 + number * 1000 + at
            tables[name].write([{"id": key, "text": f"late {at}"}], user=user)
            acknowledged[number][name, user, key] = f"late {at}"

    def flush() -> None:
        for user in cycle(_KEPT):
            if stop.wait(0.5):
                return
            assert [report.reason for report in lake.flush(user=user) if report.fault and not report.fault.transient] == []

    with ThreadPoolExecutor(3) as pool:
        working = [*(pool.submit(write, number) for number in range(2)), pool.submit(flush)]
        try:
            yield acknowledged
        finally:
            stop.set()
    for work in working:
        work.result()


def _contents(lake: Lakehouse) -> dict[str, bytes]:
    """Every object of the warehouse, read past all of the library's own readers."""
    root = path_of(lake.warehouse.uri)
    paths: list[AnyPath] = [path for path in root.rglob("*") if not (isinstance(path, Path) and path.is_dir())]
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(map(str, paths), pool.map(_bytes, paths), strict=True))


def _bytes(path: AnyPath) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def test_six_of_thirty_users_are_erased_while_others_write(warehouse_uri: str) -> None:
    tokens = {user: secrets.token_hex(12) for user in _USERS}
    with Lakehouse.open(warehouse_uri, settings=_SETTINGS) as lake:
        _fill(lake, tokens)
        lake.tag(NOTES, "before", user=_ERASED[0])
        before = {(name, user): strong(lake.table(name), user) for name in _TABLES for user in _KEPT}
        data: list[AnyPath] = [*scope_path(lake, _ERASED[0]).glob("*.parquet")]
        copy = _bytes(data[0])
        assert all(any(token.encode() in data for data in _contents(lake).values()) for token in (tokens["u0"], tokens["u1"]))

        with _others_write(lake) as acknowledged, ThreadPoolExecutor(5) as pool:
            made = list(pool.map(lambda user: lake.erase(user, deep=user == _ERASED[0]), _ERASED))

        assert [certificate.result for certificate in made] == ["complete"] * len(_ERASED)
        assert all(sum(table.hot_rows for table in certificate.tables) > 0 for certificate in made)
        contents = _contents(lake)
        for user in _ERASED:
            assert [name for name, data in contents.items() if tokens[user].encode() in data] == []
        assert lake.verify_erased(_ERASED[-1], deep=True).findings == ()
        late = acknowledged[0] | acknowledged[1]
        assert late
        for (name, user), rows in before.items():
            expected = rows | {key: text for (table, owner, key), text in late.items() if (table, owner) == (name, user)}
            assert strong(lake.table(name), user) == expected
        _check_planted(lake, copy)


def _check_planted(lake: Lakehouse, copy: bytes) -> None:
    """A leftover of each kind is found, alone."""
    user, notes = _ERASED[0], lake.table(NOTES).table
    state = path_of(lake.warehouse.state.uri)
    planted = {
        scope_path(lake, "u1") / "harmless.bin": (copy, "its footer names the user"),
        path_of(f"{state}/log/{notes.log_id}/segments/{77:020d}"): (
            pack_segment("ab" * 16, 1, 0, [Chunk("u1", 1, b"x"), Chunk(user, 1, b"y")]),
            "rows of the user in the write log",
        ),
        path_of(f"{state}/tags/{notes.id}/anywhere/name"): (
            json.dumps({"user": user, "version": 0}).encode(),
            "a tag of the user",
        ),
    }
    for path, (data, what) in planted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        assert [finding.what for finding in lake.verify_erased(user).findings] == [what]
        path.unlink()
