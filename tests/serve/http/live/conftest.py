"""A server whose subscriptions have short times and small bounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import ServeSettings, SqlSettings
from lakewarden.base.settings import Settings
from lakewarden.serve.http import subscriptions
from tests.serve.conftest import PASSWORD, Moving


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the token of a subscription that has nothing to send: elsewhere each five seconds."""
    monkeypatch.setattr(subscriptions, "_CONFIRMED_IDLE_SECONDS", 0.2)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, clock: Moving) -> Iterator[Lakehouse]:
    serve = ServeSettings(heartbeat_seconds=0.2, slow_seconds=1, subscriptions_per_user=3)
    sql = SqlSettings(memory_bytes=256 << 20, workers=2, threads=1, subscription_rows=20_000)
    settings = Settings(sql=sql, serve=serve)
    with Lakehouse.open(str(tmp_path_factory.mktemp("warehouse") / "w"), settings=settings, clock=clock) as opened:
        opened.sql("CREATE NAMESPACE app; CREATE TABLE app.notes (id BIGINT PRIMARY KEY, body TEXT) WITH (TYPE = 'USER')")
        opened.sql("; ".join(f"CREATE USER {user} WITH PASSWORD '{PASSWORD}' ROLE user" for user in ("ann", "bob", "eve")))
        yield opened
