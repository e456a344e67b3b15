"""`/docs`, `/metrics`, and what the log says of a request."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import httpx
import pytest
from selenium.webdriver.support.ui import WebDriverWait

from tests.fixtures.patience import PATIENCE

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


def test_the_page_to_try_the_calls_needs_no_other_host(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert "https://" not in page.text
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    assert client.get("/docs/calls.json").json()["openapi"].startswith("3.0"), "the newest that the page shows"
    parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(parts) == 3
    assert [client.get(part).status_code for part in parts] == [200, 200, 200]


@pytest.mark.slow
def test_a_browser_shows_every_call_on_the_page(client: httpx.Client, browser: Chrome) -> None:
    browser.get(f"{client.base_url}/docs")
    shown = "return document.querySelectorAll('.opblock').length"
    WebDriverWait(browser, PATIENCE).until(lambda page: page.execute_script(shown) or "Unable" in page.page_source)
    calls = client.get("/openapi.json").json()["paths"].values()
    assert browser.execute_script(shown) == sum(map(len, calls))


def test_metrics_count_answers_by_path_and_status(client: httpx.Client) -> None:
    client.post("/v1/api/sql", json={"sql": "SELECT 1"})
    client.get("/any/other/path")
    found = client.get("/metrics").text
    assert re.search(r'lakewarden_requests_total\{path="/v1/api/sql",status="401"\} [1-9]', found)
    assert 'lakewarden_requests_total{path="other",status="404"}' in found
    assert "/any/other/path" not in found


def test_a_request_is_a_line_of_the_log_without_what_it_sent(operator: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="lakewarden.serve"):
        answer = operator.post("/v1/api/sql", json={"sql": "SELECT 'a secret' AS s"})
    (line,) = [record.getMessage() for record in caplog.records if record.name == "lakewarden.serve"]
    assert line.startswith(f"{answer.headers['X-Request-Id']} root POST /v1/api/sql 200 ")
    assert "secret" not in line
