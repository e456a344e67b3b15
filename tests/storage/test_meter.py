"""The meter counts what a proxy in front of MinIO counts, for the operation and the table that it is for."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import copy_context
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from lakewarden import Lakehouse
from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import CompactionSettings, FlushSettings, MaintenanceSettings
from lakewarden.base.settings import Settings
from lakewarden.base.threads import Threads
from lakewarden.client.maintain_once import MaintainOnce
from lakewarden.serve.common import Common
from lakewarden.serve.http.app import application
from lakewarden.serve.tokens import operator_token
from lakewarden.storage.meter import Account, count, count_for, metered
from lakewarden.tables.client import TableClient
from tests.fixtures.azurite import AzuriteServer
from tests.fixtures.lakes import NOTES, make_notes, notes
from tests.fixtures.minio import MinioServer
from tests.fixtures.proxy import Proxy, Request, proxy_of

SETTINGS = Settings(
    flush=FlushSettings(in_process_below=1 << 20),
    compaction=CompactionSettings(min_eligible_segments=2),
    maintenance=MaintenanceSettings(min_gain=0.1),
)


@pytest.fixture
def proxy(minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxy_of(minio.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


def _own(requests: list[Request]) -> Counter[str]:
    return Counter(one.kind for one in requests)


def _counted(account: Account) -> Counter[str]:
    return Counter({kind: n for kind, n in account.total().items() if kind.isupper() and kind != "OPEN"})


def _served(lake: Lakehouse, sql: str) -> None:
    """Ann's statement over HTTP, where queries run in worker processes."""

    async def answer() -> httpx.Response:
        token = operator_token(lake.warehouse, "ann", "user", timedelta(minutes=5))
        transport = httpx.ASGITransport(application(Common.of(lake)))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post("/v1/api/sql", json={"sql": sql}, headers={"Authorization": f"Bearer {token}"})

    found = asyncio.run(answer())
    assert found.status_code == 200, found.text


def _acts(lake: Lakehouse, table: TableClient) -> dict[str, Callable[[], object]]:
    """What a table lives through, in this order."""

    def filled(*turns: int) -> None:
        for turn in turns:
            for user in ("ann", "bob", "cid"):
                table.write(notes({turn: "text"}), user=user)
            assert not [one.fault for one in lake.flush() if one.outcome == "failed"]

    return {
        "first flush": lambda: filled(0),
        "flush": lambda: filled(1, 2, 3),
        "compact": lambda: lake.compact(NOTES),
        "more": lambda: filled(4, 5, 6),
        "optimize": lambda: lake.optimize(NOTES),
        "restore": lambda: lake.restore(NOTES, user="bob", version=table.history(user="bob")[0].version - 1, dry_run=False),
        "vacuum": lambda: lake.vacuum(NOTES, retain_hours=0, force=True, dry_run=False),
        "query": lambda: lake.sql(f"SELECT count(*) FROM {NOTES}", user="ann", role="user"),
        "read": lambda: table.read(user="cid"),
        "status": lake.fleet,
    }


@pytest.mark.minio
@pytest.mark.slow
@pytest.mark.parametrize(
    "in_process_below", [1 << 20, pytest.param(1, marks=[pytest.mark.night, pytest.mark.spark])], ids=["here", "on Spark"]
)
def test_the_sum_is_that_of_a_proxy_over_each_operation(
    proxy: Proxy, in_process_below: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SETTINGS, flush=FlushSettings(in_process_below=in_process_below))
    if in_process_below == 1:
        # Spark's Python workers have the environment of the JVM's start, when this proxy was not there.
        given = request.getfixturevalue("spark").sparkContext.environment
        for name, value in os.environ.items():
            if name.startswith("AWS_"):
                monkeypatch.setitem(given, name, value)
    with Lakehouse.open(f"s3://lake/{random_id()}", settings=settings) as lake:
        acts = _acts(lake, make_notes(lake)) | {
            "served query": lambda: _served(lake, f"SELECT a.text, count(*) FROM {NOTES} a JOIN {NOTES} b USING (id) GROUP BY 1"),
            "served update": lambda: _served(lake, f"UPDATE {NOTES} SET text = 'new' WHERE id = 3"),
        }
        seen = {name: _both(proxy, act) for name, act in acts.items()}
        week = {one.operation: one for one in lake.fleet().week}
    for name, (at_proxy, here, opened) in seen.items():
        assert (here, opened) == (at_proxy, 0), name
    assert week["flush"].requests > 20
    assert week["flush"]["bytes_out"] > 1000
    assert week["compact"].dollars > 0
    assert week.keys() >= {"flush", "compact", "optimize", "vacuum", "restore"}


@pytest.mark.slow
def test_the_sum_is_that_of_a_proxy_before_azure(
    azurite: AzuriteServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    with proxy_of(azurite.endpoint) as proxy, Lakehouse.open(str(tmp_path / "warehouse"), settings=SETTINGS) as lake:
        monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", proxy.endpoint)
        lake.create_storage("azure", type="azure", base=azurite.prefix_for(request.node.nodeid))
        acts = _acts(lake, make_notes(lake, options={"STORAGE_ID": "azure"}))
        for name, act in acts.items():
            at_proxy, here, opened = _both(proxy, act)
            at_proxy["DELETE"] += at_proxy.pop("POST", 0)  # many in one request
            assert (here, opened) == (+at_proxy, 0), name


@pytest.mark.minio
@pytest.mark.slow
def test_every_other_door_is_metered(proxy: Proxy, minio: MinioServer, tmp_path: Path) -> None:
    """Where delta-rs opens tables by itself, its requests are not counted, and `OPEN` says how often."""
    uri = f"{minio.uri}/{random_id()}"
    (tmp_path / "n.csv").write_text("user,id,text\nann,91,x\nbob,92,y\n")
    with Lakehouse.open(uri, settings=SETTINGS) as lake:
        table = make_notes(lake)
        for turn in range(3):
            for user in ("ann", "bob", "cid"):
                table.write(notes({turn: "text"}), user=user)
            lake.flush()
        lake.create_namespace("shop")
        lake.pipelines.create("shop.orders", "csv")
        lake.create_storage("far", type="s3", base=f"{uri}-far")
        minio.overwrite(f"{uri.removeprefix(minio.uri)[1:]}/uploads/shop/a.csv", b"id,item\n1,a\n")
        acts: dict[str, Callable[[], object]] = {
            "write": lambda: table.write(notes({7: "text"}), user="ann"),
            "listing": lambda: lake.pipelines.untaken("shop.orders", lake.pipelines.listing("shop.orders")),
            "ingest": lambda: lake.ingest("shop.orders"),
            "load": lambda: lake.load(NOTES, str(tmp_path / "n.csv"), user_column="user"),
            "plan": lambda: lake.apply(lake.planned("compact", NOTES)),
            "queue": lambda: (lake.enqueue("flush", NOTES), lake.run_jobs()),
            "quick check": lambda: lake.check(quick=True),
            "health": lake.health,
            "maintain": lambda: MaintainOnce(lake, dry_run=False).run(),
            "export": lambda: lake.export("ann", f"{uri}/exports/ann"),
            "import": lambda: lake.import_user(f"{uri}/exports/ann", "eve"),
            "repair": lambda: lake.repair(NOTES),
            "verify": lambda: lake.verify_erased("nobody", deep=True),
            "survey": lambda: lake.maintenance.status.survey(f"{uri}/data"),
        }
        opening: dict[str, Callable[[], object]] = {
            "check": lake.check,
            "erase": lambda: lake.erase("bob"),
            "move": lambda: lake.move(NOTES, "far"),
            "drop": lambda: lake.drop_table(NOTES),
        }
        seen = {name: _both(proxy, act) for name, act in (acts | opening).items()}
    assert {name: one for name, one in seen.items() if (one[1], one[2]) != (one[0], 0)}.keys() == opening.keys()
    assert all(here < at_proxy and opened for at_proxy, here, opened in map(seen.__getitem__, opening))


def _both(proxy: Proxy, act: Callable[[], object]) -> tuple[Counter[str], Counter[str], int]:
    """What the proxy saw, what was counted here, and how often delta-rs opened a table."""
    proxy.taken()
    with metered() as spent:
        act()
    return _own(proxy.taken()), _counted(spent), spent.total().get("OPEN", 0)


def test_threads_count_for_the_job_and_the_table_of_their_caller() -> None:
    def work_for_t(table_id: str) -> None:
        count_for("t")
        for done in [pool.submit(count, "GET", 2, bytes_in=5), pool.submit(count, "PUT", bytes_out=7)]:
            done.result()
        count("GET", table_id=table_id)

    with metered() as outer, Threads(2) as pool:
        with metered() as inner:
            copy_context().run(work_for_t, "u")
        count("LIST", table_id="u")
    count("DELETE")
    assert inner.by_table() == {"t": {"GET": 3, "bytes_in": 5, "PUT": 1, "bytes_out": 7}}
    assert outer.total() == {"GET": 3, "bytes_in": 5, "PUT": 1, "bytes_out": 7, "LIST": 1}
    assert outer.by_table()["u"] == {"LIST": 1}
