"""Limits as a client meets them: 429, and how long to wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from lakewarden import Lakehouse
from lakewarden.serve.operator import operator_token
from lakewarden.settings import ServeSettings, Settings
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
