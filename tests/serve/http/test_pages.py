"""`/docs`, `/metrics`, and what the log says of a request."""

from __future__ import annotations

import logging
import re

import httpx
import pytest


def test_the_page_to_try_the_calls_needs_no_other_host(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert "https://" not in page.text
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(parts) == 3
    assert [client.get(part).status_code for part in parts] == [200, 200, 200]


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
