"""What the corpus cannot tell: a clock that moves, jobs that are left queued, exports on disk, secrets that stay out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden import Lakehouse, Settings
from lakewarden.base.connection import Location
from lakewarden.base.setting_sections import SparkSettings
from lakewarden.catalog.state.job import Job
from lakewarden.delta.table import ScopeTable
from lakewarden.errors import LakewardenError, NotFound, PermissionDenied
from lakewarden.sql.queries.scan import RELATIONS
from lakewarden.sql.results import Result, ResultRows, StartedJobs, StatementDone
from tests.fixtures.clock import Clock
from tests.fixtures.minio import MinioServer

_SECRET = "sentinel-secret-7f3a9c"
_NOTES = "CREATE NAMESPACE app; CREATE USER TABLE app.notes (id INT PRIMARY KEY, v TEXT)"


def _rows(results: list[Result]) -> list[dict[str, object]]:
    found = results[-1]
    assert isinstance(found, ResultRows)
    return found.to_pylist()


def _job(lake: Lakehouse, text: str, user: str = "root", role: str = "system", *, wait: bool = True) -> Job:
    found = lake.sql(text, user=user, role=role, wait=wait)[-1]
    assert isinstance(found, StartedJobs)
    (job,) = [job for job in lake.jobs(None) if job.job_id in found.job_ids]
    return job


def test_a_job_that_cannot_be_read_keeps_no_other_from_its_runner(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(f"{_NOTES}; CREATE USER TABLE app.more (id INT PRIMARY KEY); INSERT INTO app.more VALUES (1)")
        lake.sql("INSERT INTO app.notes VALUES (1, 'a')")
        garbled, other = (_job(lake, f"STORAGE FLUSH TABLE app.{table}", wait=False) for table in ("more", "notes"))
        state = lake.warehouse.state
        for key in state.keys("jobs"):
            if garbled.job_id in key:
                state.put(key, b"garbled")
        assert [job.job_id for job in lake.run_jobs()] == [other.job_id]
        found = {str(row["job_id"]): row for row in _rows(lake.sql("SELECT job_id, status, message FROM system.jobs"))}
    assert {job_id: row["status"] for job_id, row in found.items()} == {garbled.job_id: "failed", other.job_id: "completed"}
    assert str(found[garbled.job_id]["message"]).endswith("what became of it is not known")


def test_a_row_of_a_stream_is_gone_with_the_millisecond_of_its_ttl(warehouse_uri: str) -> None:
    clock = Clock(datetime(2026, 11, 21, 8, 0, tzinfo=UTC))
    with Lakehouse.open(warehouse_uri, clock=clock) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE STREAM TABLE app.events (id INT) WITH (TTL_SECONDS = 30)")
        lake.sql("INSERT INTO app.events VALUES (1)")
        clock.now += timedelta(seconds=30)
        assert _rows(lake.sql("SELECT id FROM app.events")) == [{"id": 1}]
        assert {"metric_name": "rows", "metric_value": 1} in _rows(lake.sql("SHOW STATS FOR TABLE app.events"))
        clock.now += timedelta(milliseconds=1)
        assert _rows(lake.sql("SELECT id FROM app.events")) == []
        lake.sql("DELETE FROM app.events WHERE true")
        assert [report.metrics["rows_evicted"] for report in lake.evict("app.events")] == [1]


def test_what_is_queued_already_is_success_and_no_second_job(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(f"{_NOTES}; INSERT INTO app.notes VALUES (1, 'a')")
        first = _job(lake, "STORAGE FLUSH TABLE app.notes", wait=False)
        again = lake.sql("STORAGE FLUSH TABLE app.notes; STORAGE FLUSH ALL IN NAMESPACE app", wait=False)
        assert again == [StatementDone("skipped: already queued or running")] * 2
        assert (first.status, len(lake.jobs(None))) == ("queued", 1)
        lake.sql(f"KILL JOB '{first.job_id}'")
        assert lake.jobs(None)[0].status == "cancelled"
        assert _job(lake, "STORAGE FLUSH TABLE app.notes").status == "completed"


def test_an_export_lies_in_a_folder_of_its_job_and_only_its_user_is_told(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(_NOTES)
        lake.sql("INSERT INTO app.notes VALUES (1, 'of ada')", user="ada", role="user")
        lake.sql("INSERT INTO app.notes VALUES (1, 'of ben')", user="ben", role="user")
        job = _job(lake, "EXPORT USER DATA", "ada", "user")
        (told,) = _rows(lake.sql("SHOW EXPORT", user="ada", role="user"))
        assert (told["job_id"], told["status"]) == (job.job_id, "completed")
        place = f"{lake.warehouse.uri}/exports/{job.job_id}"
        assert told["download_url"] == place
        exported = ScopeTable.open(Location(f"{place}/app/notes"))
        assert exported is not None
        assert exported.scan().column("v").to_pylist() == ["of ada"]
        assert _rows(lake.sql("SHOW EXPORT", user="ben", role="user")) == []


def test_the_last_twenty_exports_are_shown_and_one_is_active_at_a_time(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(_NOTES)
        for _ in range(21):
            job = _job(lake, "EXPORT USER DATA", "ada", "user", wait=False)
            assert lake.sql("EXPORT USER DATA", user="ada", role="user") == [StatementDone("skipped: already queued or running")]
            lake.kill_job(job.job_id)
        shown = _rows(lake.sql("SHOW EXPORT", user="ada", role="user"))
        assert [row["status"] for row in shown] == ["cancelled"] * 20
        assert {row["download_url"] for row in shown} == {None}


def test_an_erased_user_is_in_no_job_and_no_claim(warehouse_uri: str) -> None:
    user = "unmistakable-ada"
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(_NOTES)
        lake.sql("INSERT INTO app.notes VALUES (1, 'a')", user=user, role="user")
        job = _job(lake, "EXPORT USER DATA", user, "user")
        lake.erase(user)
        assert not [key for key in ("jobs", "active-jobs") for one in lake.warehouse.state.list(key)
                    if user.encode() in lake.warehouse.state.get(one.key)]  # fmt: skip
        with pytest.raises(NotFound):
            lake.import_user(f"{lake.warehouse.uri}/exports/{job.job_id}", "ben")


@pytest.mark.slow
def test_no_relation_of_system_tells_a_secret(warehouse_uri: str) -> None:
    settings = Settings(spark=SparkSettings(conf={"spark.hadoop.fs.s3a.secret.key": _SECRET}))
    with Lakehouse.open(warehouse_uri, settings=settings) as lake:
        lake.sql(f"CREATE USER ada WITH PASSWORD '{_SECRET}' ROLE user")
        lake.sql(f"""CREATE USER bob WITH OAUTH '{{"subject": "{_SECRET}"}}' ROLE user""")
        lake.sql(f"ALTER USER ada SET PASSWORD '{_SECRET}2'")
        for name in RELATIONS:
            told = json.dumps(_rows(lake.sql(f"SELECT * FROM system.{name}")), default=str)
            assert _SECRET not in told
            assert "argon2" not in told


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE STORAGE s TYPE s3 BUCKET 'b' CREDENTIALS '{_SECRET}'",
        f"CREATE STORAGE s TYPE s3 BUCKET 'b' CREDENTIALS {_SECRET}",
        f"CREATE STORAGE s TYPE s3 BUCKET 'b' CREDENTIALS '{_SECRET}' COLOUR 'red'",
        f"CREATE STORAGE s TYPE s3 BUCKET 'b' CONFIG '{{\"secret\": \"{_SECRET}\"}}'",
        f"CREATE STORAGE s TYPE s3 BUCKET 'b' CONFIG '{_SECRET}'",
        f"CREATE STORAGE s TYPE s3 BUCKET 'b' CONFIG '{{\"endpoint\": \"http://me:{_SECRET}@host\"}}'",
        f"ALTER STORAGE local SET CREDENTIALS '{_SECRET}'",
        f"ALTER STORAGE local SET CONFIG '{_SECRET}'",
        f"CREATE USER ada WITH PASSWORD '{_SECRET}'",
        f"CREATE USER ada WITH PASSWORD {_SECRET} ROLE user",
        f"ALTER USER ada SET PASSWORD '{_SECRET}' NOW",
    ],
)
def test_a_refused_secret_is_not_repeated(text: str, warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        with pytest.raises(LakewardenError) as refused:
            lake.sql(text)
        assert _SECRET not in refused.value.message
        assert all(_SECRET.encode() not in lake.warehouse.state.get(one.key) for one in lake.warehouse.state.list("audit"))


def test_a_storage_in_a_bucket_by_reference(minio: MinioServer, warehouse_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in minio.credentials("TENANT_A").items():
        monkeypatch.setenv(name, value)
    place = minio.prefix_for("a storage by reference")
    config = json.dumps({"endpoint": minio.endpoint, "path_style": True})
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql(
            f"CREATE STORAGE far TYPE s3 BASE_DIRECTORY '{place}' REGION 'us-east-1' CREDENTIALS 'env:TENANT_A' CONFIG '{config}'"
        )
        lake.sql("CREATE NAMESPACE app; CREATE TABLE app.t (id INT PRIMARY KEY) WITH (STORAGE_ID = 'far')")
        lake.sql("INSERT INTO app.t VALUES (1); STORAGE FLUSH TABLE app.t")
        assert _rows(lake.sql("SELECT id FROM app.t", freshness="eventual")) == [{"id": 1}]
        (told,) = _rows(lake.sql("SELECT credentials, config_json FROM system.storages WHERE storage_id = 'far'"))
        assert told["credentials"] == "[REDACTED]"
        assert minio.password not in str(told)
        assert not {"credentials", "config_json"} & set(_rows(lake.sql("SHOW STORAGES"))[0])
        with pytest.raises(LakewardenError):
            lake.sql("""ALTER STORAGE far SET CONFIG '{"endpoint": "http://127.0.0.1:1"}'""")
        lake.sql("ALTER STORAGE far SET NAME 'Far away' SET REGION 'eu-central-1'")
        assert lake.storages()[-1].connection.region == "eu-central-1"


def test_a_user_is_not_told_where_the_server_keeps_a_scope(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY)")
        with pytest.raises(NotFound, match=r"app\.t\[ann\] has no Delta table, so no version") as refused:
            lake.sql("DESCRIBE HISTORY app.t", user="ann", role="user")
        assert warehouse_uri not in refused.value.message


def test_the_sessions_of_this_process_are_seen_while_they_are_open(warehouse_uri: str) -> None:
    query = "SELECT user_id, role, actor_user_id, namespace_id FROM system.sessions ORDER BY opened_at, session_id::TEXT"
    with Lakehouse.open(warehouse_uri) as lake:
        lake.sql("CREATE NAMESPACE app")
        ann = lake.session(user="ann", role="service")
        ann.sql("USE app")
        ben = ann.execute_as("ben")
        seen = [tuple(row.values()) for row in _rows(lake.sql(query))]
        assert seen == [("ann", "service", None, "app"), ("ben", "user", "ann", None), ("root", "system", None, None)]
        del ann, ben
        assert [row["user_id"] for row in _rows(lake.sql(query))] == ["root"]
        assert _rows(lake.sql("SELECT * FROM system.transactions")) == []
        with pytest.raises(PermissionDenied):
            lake.sql(query, user="ann", role="service")


def test_a_table_moves_to_another_storage(warehouse_uri: str) -> None:
    with Lakehouse.open(warehouse_uri) as lake:
        lake.create_storage("cold", type="filesystem" if "://" not in warehouse_uri else "s3", base=f"{warehouse_uri}-cold")
        lake.sql(f"{_NOTES}; INSERT INTO app.notes VALUES (1, 'a'); STORAGE FLUSH TABLE app.notes")
        with pytest.raises(LakewardenError, match="STORAGE MOVE TABLE"):
            lake.sql("ALTER TABLE app.notes SET TBLPROPERTIES (STORAGE_ID = 'cold')")
        queued = _job(lake, "STORAGE MOVE TABLE app.notes TO cold", wait=False)
        assert (queued.job_type, queued.status, queued.parameters["to"]) == ("move", "queued", "cold")
        lake.sql(f"KILL JOB '{queued.job_id}'")
        assert _job(lake, "STORAGE MOVE TABLE app.notes TO 'cold'", role="dba").status == "completed"
        assert _rows(lake.sql("SELECT id FROM app.notes")) == [{"id": 1}]
        assert _rows(lake.sql("SELECT storage_id FROM system.tables WHERE table_name = 'notes'")) == [{"storage_id": "cold"}]
        assert lake.sql("STORAGE MOVE TABLE app.notes TO cold; STORAGE MOVE TABLE app.notes CANCEL") == [
            StatementDone("skipped: app.notes is already on storage 'cold'"),
            StatementDone("skipped: app.notes is not being moved"),
        ]
        assert "MOVE_TABLE" in [row["action"] for row in _rows(lake.sql("SELECT action FROM system.audit_log"))]
