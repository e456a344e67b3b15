"""What operations commit and report has the time of the warehouse's own clock, whatever the machine's says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden import Column, Lakehouse

_NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)


def test_commits_and_reports_have_the_time_of_the_warehouse_s_clock(warehouse_uri: str) -> None:
    now = [_NOON]
    with Lakehouse.open(warehouse_uri, clock=lambda: now[0]) as lake:
        lake.create_namespace("app")
        table = lake.create_table("app.t", type="USER", columns=[Column("id", "BIGINT")], primary_key=["id"])
        reports = []
        for day in range(2):
            now[0] = _NOON + timedelta(days=day)
            table.write([{"id": day}], user="u")
            reports += lake.flush()
        history = list(table.history(user="u"))
    assert [report.outcome for report in reports] == ["done", "done"]
    for day, (commit, report) in enumerate(zip(reversed(history), reports, strict=True)):
        assert report.finished_at is not None
        for moment in (commit.timestamp, report.finished_at):
            assert timedelta() <= moment - _NOON - timedelta(days=day) < timedelta(minutes=10), (day, moment)
