"""Limits as a client meets them: 429, and how long to wait."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import ServeSettings
from lakewarden.base.settings import Settings
from lakewarden.serve.tokens import operator_token
from tests.fixtures.patience import PATIENCE
from tests.serve.conftest import bearer, serving

A_QUARTER_PAST = datetime(2026, 11, 23, 12, 0, 15, tzinfo=UTC)


def test_a_user_who_sends_too_many_requests_is_told_how_long_to_wait(tmp_path: Path) -> None:
    settings = Settings(serve=ServeSettings(requests_per_minute=2, refusals_per_minute=1))
    with Lakehouse.open(str(tmp_path / "w"), settings=settings, clock=lambda: A_QUARTER_PAST) as lake, serving(lake) as url:
        tokens = [operator_token(lake.warehouse, user, "dba", timedelta(hours=1)) for user in ("ann", "bob")]

        def ask(token: str) -> httpx.Response:
            return httpx.post(f"{url}/v1/api/sql", json={"sql": "SHOW NAMESPACES"}, headers=bearer(token), timeout=PATIENCE)

        assert [ask(tokens[0]).status_code for _ in range(3)] == [200, 200, 429]
        refused = ask(tokens[0])
        assert refused.json()["error"]["code"] == "CONFLICT"
        assert refused.headers["Retry-After"] == "45"
        assert ask(tokens[1]).status_code == 200
        assert [ask("wrong").status_code for _ in range(2)] == [401, 429]
        assert ask("wrong").headers["Retry-After"] == "60"
        assert ask(tokens[1]).status_code == 200, "a token that works does not answer for others"


@pytest.mark.parametrize("accepted", ["application/json", "application/vnd.apache.arrow.stream"])
@pytest.mark.parametrize("whole", [True, False], ids=["taken", "given up"])
def test_an_answer_counts_until_its_client_has_taken_it(tmp_path: Path, accepted: str, whole: bool) -> None:
    settings = Settings(serve=ServeSettings(concurrent_per_user=1))
    with Lakehouse.open(str(tmp_path / "w"), settings=settings) as lake, serving(lake) as url:
        headers = bearer(operator_token(lake.warehouse, "ann", "dba", timedelta(hours=1)))
        answered = {**headers, "Accept": accepted}
        heavy = {"sql": "SELECT repeat('x', 1000) AS text FROM range(50000)"}  # more than fits on the way to a client

        def status() -> int:
            return httpx.post(f"{url}/v1/api/sql", json={"sql": "SHOW NAMESPACES"}, headers=headers, timeout=PATIENCE).status_code

        with httpx.stream("POST", f"{url}/v1/api/sql", json=heavy, headers=answered, timeout=PATIENCE) as slow:
            assert (slow.status_code, status()) == (200, 429)
            if whole:
                assert len(slow.read()) > 50_000_000
        while (found := status()) == 429:
            time.sleep(0.05)
        assert found == 200
