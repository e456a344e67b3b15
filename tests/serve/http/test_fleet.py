"""`/fleet` and `/metrics`: what a dba sees of all tables, and what others do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import ServeSettings
from lakewarden.base.settings import Settings
from lakewarden.serve.common import Common
from lakewarden.serve.http.app import application
from lakewarden.serve.tokens import operator_token
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk

LIFE = timedelta(minutes=5)
TOKEN = "a-token-for-scrapes-alone"
Get = Callable[[str, str], httpx.Response]


@pytest.fixture
def get(tmp_path: Path) -> Get:
    """A request for a path by a role, by the token itself, or by none."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    settings = Settings(serve=ServeSettings(scrape_token_file=str(tmp_path / "token")))
    lake = Lakehouse.open(str(tmp_path / "warehouse"), settings=settings)
    table = make_notes(lake)
    table.write(notes({1: "a"}), user="ann-in-labels")
    lake.flush()
    transport = httpx.ASGITransport(application(Common.of(lake)), raise_app_exceptions=False)

    async def answer(path: str, headers: dict[str, str]) -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get(path, headers=headers)

    def ask(path: str, role: str) -> httpx.Response:
        token = operator_token(lake.warehouse, "someone", role, LIFE) if role in ("user", "service", "dba", "system") else role
        return asyncio.run(answer(path, {"Authorization": f"Bearer {token}"} if role else {}))

    return ask


@pytest.mark.parametrize("role", ["dba", "system"])
def test_a_dba_sees_the_page_and_each_tables_figures(get: Get, role: str) -> None:
    page = get("/fleet", role)
    assert (page.status_code, page.headers["content-type"], page.headers["cache-control"]) == (
        200,
        "text/html; charset=utf-8",
        "no-store",
    )
    assert "1 scope: all well" in page.text
    figures = get("/metrics", role).text
    assert f'lakewarden_files{{table="{NOTES}"}} 1.0' in figures
    assert "lakewarden_requests_running" in figures


@pytest.mark.parametrize("path", ["/fleet", "/metrics"])
@pytest.mark.parametrize("role", ["user", "service"])
def test_others_see_no_table(get: Get, path: str, role: str) -> None:
    found = get(path, role)
    assert (found.status_code, NOTES in found.text) == (403, False)


def test_without_a_token_metrics_are_those_of_the_process(get: Get) -> None:
    found = get("/metrics", "")
    assert (found.status_code, NOTES in found.text, "lakewarden_requests" in found.text) == (200, False, True)
    assert get("/fleet", "").status_code == 401


def test_a_scrape_token_shows_figures_and_nothing_else(get: Get) -> None:
    figures = get("/metrics", TOKEN)
    assert (figures.status_code, f'table="{NOTES}"' in figures.text, "ann-in-labels" in figures.text) == (200, True, False)
    assert get("/fleet", TOKEN).status_code == 401
    assert get("/metrics", TOKEN[:-1]).status_code == 401


def test_a_scrape_token_that_is_too_short_shows_nothing(get: Get, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")
    assert get("/metrics", "short").status_code == 400
    (tmp_path / "token").unlink()
    assert get("/metrics", TOKEN).status_code == 400
