"""Ingests through their doors, with children that read: what each leaves in the audit log, the jobs and the history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.access import Principal
from lakewarden.client.k3 import K3
from lakewarden.errors import FailedPrecondition, NotFound, PermissionDenied
from tests.ingest.pipelines.uploads import make, rows, table, upload

A = "id,name\n1,a\n2,b\n"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w")) as opened:
        make(opened)
        upload(opened, {"a.csv": A})
        yield opened


def audited(lake: Lakehouse) -> list[tuple[object, ...]]:
    """Who ingested, into what, and how it went; newest first."""
    found = rows(lake, "SELECT actor_user_id, target, details FROM system.audit_log WHERE action = 'INGEST'")
    return [tuple(row.values()) for row in found]


@pytest.mark.slow
def test_an_ingest_is_in_the_audit_log_with_who_and_what(lake: Lakehouse) -> None:
    alice = K3(lake.k3._services, Principal("alice", "service"))
    first = lake.ingest("n.t")
    lake.ingest("n.t")
    job = alice.trigger_ingest("n", "t", "a.csv")["jobId"]
    with pytest.raises(NotFound):
        alice.trigger_ingest("n", "t", "no.csv")
    with pytest.raises(PermissionDenied):
        K3(lake.k3._services, Principal("bob")).trigger_ingest("n", "t", "a.csv")
    (rule,) = lake.pipelines.rules()
    lake.pipelines.edit_rule(rule.id, {"enabled": False})
    with pytest.raises(FailedPrecondition):
        lake.ingest("n.t")
    disabled, missing, triggered, new = audited(lake)
    taken = "1 objects ingested, 2 rows; 0 rejected, 0 left, 0 skipped; 1 commits"
    assert new == ("root", "table:n.t", f"{first.job_id}: {taken}"), "the second found nothing"
    assert triggered == ("alice", "table:n.t", f"{job}: {taken}")
    assert missing[0] == "alice"
    assert "failed: there is no object 'no.csv'" in str(missing[2])
    assert "is disabled" in str(disabled[2])


@pytest.mark.slow
def test_the_commits_of_an_ingest_name_its_job(lake: Lakehouse) -> None:
    upload(lake, {"bad.csv": "id,name\n1\n"})
    report = lake.ingest("n.t")
    (job,) = lake.jobs()
    assert (job.job_id, job.job_type, job.status) == (report.job_id, "ingest", "completed")
    for name in ("n.t", "n.t_rejects"):
        newest, *_ = rows(lake, f"DESCRIBE HISTORY {name}")
        assert report.job_id in str(newest)
    assert table(lake) == [(1, "a"), (2, "b")]
