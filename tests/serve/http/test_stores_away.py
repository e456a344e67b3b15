"""A bucket away, all else works, under statements and K3's calls over HTTP: what needs it answers 503 and names it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.serve.common import Common
from lakewarden.serve.http.app import application
from lakewarden.serve.tokens import operator_token
from tests.fixtures.minio import MinioServer
from tests.fixtures.stores_away import far_storage, gone

pytestmark = [pytest.mark.disk, pytest.mark.slow]

Ask = Callable[[str, str, object], httpx.Response]

PAGES = ("/health", "/ready", "/metrics", "/openapi.json", "/fleet")

STATEMENTS_THAT_WORK = (
    "SELECT * FROM n.snear",
    "SELECT * FROM n.near",
    "SELECT * FROM n.events",
    "SHOW MANIFEST",
    "DESCRIBE n.sfar",
    "INSERT INTO n.snear VALUES (70, 'a')",
    "UPDATE n.snear SET s = 'q' WHERE id = 1",
    "OPTIMIZE n.snear",
)
STATEMENTS_THAT_NEED_IT = (
    "SELECT * FROM n.far",
    "SELECT * FROM n.snear JOIN n.sfar USING (id)",
    "INSERT INTO n.sfar VALUES (70, 'a')",
    "DESCRIBE HISTORY n.sfar",
    "VACUUM n.sfar",
)

AT = {"bucket": "n"}
CALLS_THAT_WORK: tuple[tuple[str, dict[str, object]], ...] = (
    ("getEngine", {}),
    ("listTables", {}),
    ("execute", {"sql": "SELECT id FROM snear"}),
    ("insert", {"table": "snear", "rows": [{"id": 80, "s": "a"}]}),
    ("update", {"table": "snear", "set": {"s": "'q'"}, "where": "id = 0"}),
    ("deleteRows", {"table": "snear", "where": "id = 0"}),
    ("history", {"table": "snear"}),
    ("compact", {"table": "snear"}),
    ("optimize", {"table": "snear"}),
    ("vacuum", {"table": "snear", "dryRun": True}),
)
CALLS_THAT_NEED_IT: tuple[tuple[str, dict[str, object]], ...] = (
    ("execute", {"sql": "SELECT id FROM sfar"}),
    ("insert", {"table": "sfar", "rows": [{"id": 80, "s": "a"}]}),
    ("update", {"table": "sfar", "set": {"s": "'q'"}, "where": "id = 0"}),
    ("deleteRows", {"table": "sfar", "where": "id = 0"}),
    ("history", {"table": "sfar"}),
    ("compact", {"table": "sfar"}),
    ("optimize", {"table": "sfar"}),
    ("vacuum", {"table": "sfar", "dryRun": True}),
    ("restore", {"table": "sfar", "version": "0"}),
)


@pytest.fixture(scope="module")
def ask(minio: MinioServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    root = tmp_path_factory.mktemp("away-http") / "lake"
    with (
        pytest.MonkeyPatch.context() as environment,
        far_storage(minio, root, environment) as far,
        gone(far, "refused", minio, environment),
        Lakehouse.open(str(far.root)) as lake,
    ):
        token = operator_token(lake.warehouse, "ada", "dba", timedelta(minutes=30))
        transport = httpx.ASGITransport(application(Common.of(lake)), raise_app_exceptions=False)

        async def answer(method: str, path: str, body: object) -> httpx.Response:
            async with httpx.AsyncClient(transport=transport, base_url="http://here", timeout=120) as client:
                return await client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

        yield lambda method, path, body: asyncio.run(answer(method, path, body))


def check_named(answer: httpx.Response) -> None:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (503, "STORAGE_UNAVAILABLE"), answer.text
    assert "storage 'far'" in error["message"]


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_served(ask: Ask, path: str) -> None:
    assert ask("GET", path, None).status_code == 200


@pytest.mark.parametrize("text", STATEMENTS_THAT_WORK)
def test_a_statement_that_does_not_need_it_works(ask: Ask, text: str) -> None:
    answer = ask("POST", "/v1/api/sql", {"sql": text})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("text", STATEMENTS_THAT_NEED_IT)
def test_a_statement_that_needs_it_is_refused_by_name(ask: Ask, text: str) -> None:
    check_named(ask("POST", "/v1/api/sql", {"sql": text}))


@pytest.mark.parametrize(("call", "body"), CALLS_THAT_WORK, ids=lambda one: one if isinstance(one, str) else "")
def test_a_call_of_k3s_that_does_not_need_it_works(ask: Ask, call: str, body: dict[str, object]) -> None:
    answer = ask("POST", f"/k3/v1/{call}", {**AT, **body})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(("call", "body"), CALLS_THAT_NEED_IT, ids=lambda one: one if isinstance(one, str) else "")
def test_a_call_of_k3s_that_needs_it_is_refused_by_name(ask: Ask, call: str, body: dict[str, object]) -> None:
    check_named(ask("POST", f"/k3/v1/{call}", {**AT, **body}))


def test_a_list_of_tables_says_which_one_cannot_be_read(ask: Ask) -> None:
    found = {one["name"]: one for one in ask("POST", "/k3/v1/listTables", AT).json()}
    assert (found["snear"]["status"], found["snear"]["deltaVersion"]) != ("TABLE_STATUS_UNSPECIFIED", "")
    unread = found["sfar"]
    assert (unread["status"], unread["deltaVersion"], unread["rowCount"]) == ("TABLE_STATUS_UNSPECIFIED", "", "")
    assert [column["name"] for column in unread["columns"]] == ["id", "s"]
    check_named(ask("POST", "/k3/v1/getTable", {**AT, "table": "sfar"}))
