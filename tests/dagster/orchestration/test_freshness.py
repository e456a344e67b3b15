"""The asset `…/flushed` as Dagster's own daemon judges it: fresh, stale while a scope is late, and fresh again."""

from __future__ import annotations

import asyncio
import time

import dagster as dg
from dagster._core.definitions.freshness import FreshnessState, FreshnessStateRecord
from dagster._core.loader import LoadingContextForTest
from dagster._core.test_utils import freeze_time
from dagster._daemon.freshness import FreshnessDaemon

from lakewarden.client import Lakehouse
from tests.dagster.orchestration.conftest import Load
from tests.dagster.orchestration.test_health import events_of_a_tick, with_interval, write_long_ago
from tests.fixtures.dagster import DAGSTER

pytestmark = DAGSTER

FLUSHED = dg.AssetKey(["chat", "messages", "chat.messages-flushed"])
MINUTE = 60.0


def judged(definitions: dg.Definitions, instance: dg.DagsterInstance) -> FreshnessState | None:
    """The state that the daemon notes when it comes by."""
    node = definitions.resolve_asset_graph().get(FLUSHED)
    asyncio.run(FreshnessDaemon()._evaluate_asset(LoadingContextForTest(instance), node))
    record = FreshnessStateRecord.blocking_get(LoadingContextForTest(instance), FLUSHED)
    return record.freshness_state if record else None


def test_a_late_table_grows_stale_and_is_fresh_again_when_it_is_flushed(
    load: Load, chat: str, instance: dg.DagsterInstance
) -> None:
    with_interval(chat)
    definitions, now = load(chat), time.time()
    assert judged(definitions, instance) is FreshnessState.UNKNOWN
    events_of_a_tick(definitions, instance)
    assert judged(definitions, instance) is FreshnessState.PASS
    write_long_ago(chat, "ada")
    for minutes, state in ((5, FreshnessState.PASS), (12, FreshnessState.WARN), (17, FreshnessState.FAIL)):
        with freeze_time(now + minutes * MINUTE):
            events_of_a_tick(definitions, instance)
            assert judged(definitions, instance) is state
    with Lakehouse.open(chat) as lake:
        lake.flush()
    with freeze_time(now + 20 * MINUTE):
        events_of_a_tick(definitions, instance)
        assert judged(definitions, instance) is FreshnessState.PASS
