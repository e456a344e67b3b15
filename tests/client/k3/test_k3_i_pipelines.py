"""K3.I, and the lines of K3.C about tables of pipelines: what is uploaded is taken by rules, each object once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.access import Principal
from lakewarden.client.k3 import K3
from lakewarden.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied
from tests.client.k3.tables import make, run
from tests.ingest.pipelines.uploads import upload_to

A = "id,name\n1,a\n2,b\n"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w")) as opened:
        opened.k3.create_bucket("kb-prod")
        yield opened


@pytest.fixture
def k3(lake: Lakehouse) -> K3:
    return lake.k3


def docs(k3: K3, **options: object) -> Any:
    return k3.create_table_pipeline("kb-prod", "docs", "csv", options)


def upload(k3: K3, **objects: str) -> None:
    upload_to(Path(k3._warehouse.uri) / "uploads" / "kb-prod", {key.replace("__", "."): text for key, text in objects.items()})


def ids(k3: K3) -> list[int]:
    return [row["id"] for row in run(k3, "SELECT id FROM docs ORDER BY id")["rows"]]


def test_k3_022_a_pipeline_table_has_no_columns_yet(k3: K3) -> None:
    made = docs(k3)
    assert (made["columns"], made["source"], made["deltaVersion"]) == ([], "TABLE_SOURCE_PIPELINE_GENERATED", "")
    assert k3.get_table("kb-prod", "docs") == made
    assert made in k3.list_tables("kb-prod")
    with pytest.raises(InvalidArgument, match="owns the schema"):
        k3.create_table_pipeline("kb-prod", "other", "csv", columns=[{"name": "id", "type": "COLUMN_TYPE_LONG"}])
    with pytest.raises(AlreadyExists):
        docs(k3)
    with pytest.raises(NotFound, match="template"):
        k3.create_table_pipeline("kb-prod", "other", "nothing")
    with pytest.raises(NotFound):
        k3.create_table_pipeline("nowhere", "other", "csv")


@pytest.mark.slow
def test_k3_023_the_first_object_makes_the_schema_and_later_ones_may_add_columns(k3: K3, lake: Lakehouse) -> None:
    docs(k3)
    upload(k3, a__csv=A)
    lake.ingest("kb-prod.docs")
    table: Any = k3.get_table("kb-prod", "docs")
    assert [(one["name"], one["type"]) for one in table["columns"]] == [
        ("id", "COLUMN_TYPE_LONG"),
        ("name", "COLUMN_TYPE_STRING"),
    ]
    assert (table["deltaVersion"], table["rowCount"]) == ("0", "2")
    upload(k3, b__csv="id,name,more\n3,c,x\n", c__csv="id\n4\n", d__csv="id,name\nfour,d\n")
    report = lake.ingest("kb-prod.docs")
    assert (report.ingested, report.rejected) == (1, 2)
    rows: Any = run(k3, "SELECT object, error FROM docs_rejects ORDER BY object")["rows"]
    assert [row["object"] for row in rows] == ["c.csv", "d.csv"]
    assert [row["more"] for row in run(k3, "SELECT * FROM docs ORDER BY id")["rows"]] == [None, None, "x"]


@pytest.mark.slow
def test_k3_024_a_pipeline_table_names_its_pipeline(k3: K3, lake: Lakehouse) -> None:
    made = docs(k3)
    (pipeline,) = lake.pipelines.all()
    assert made["pipelineId"] == pipeline.id
    assert pipeline.id.startswith("pl_")
    upload(k3, a__csv=A)
    lake.ingest("kb-prod.docs")
    assert k3.get_table("kb-prod", "docs")["pipelineId"] == pipeline.id
    make(k3, "manual")
    assert k3.get_table("kb-prod", "manual")["pipelineId"] == ""


def test_k3_025_a_pipeline_table_gets_one_rule_by_the_extensions_of_its_template(k3: K3) -> None:
    make(k3, "manual")
    assert k3.list_rules("kb-prod") == []
    docs(k3)
    (rule,) = k3.list_rules("kb-prod")
    assert rule["globs"] == ["**/*.csv", "**/*.csv.gz", "**/*.csv.zst"]
    assert (rule["table"], rule["enabled"], rule["excludes"]) == ("docs", True, [])


def test_k3_026_a_query_before_the_first_object_fails(k3: K3) -> None:
    docs(k3)
    for sql in ("SELECT * FROM docs", "INSERT INTO docs VALUES (1)", "DELETE FROM docs WHERE id = 1"):
        with pytest.raises(FailedPrecondition, match="schema not materialized yet"):
            run(k3, sql)


@pytest.mark.slow
def test_k3_119_what_is_uploaded_and_matches_is_taken(k3: K3, lake: Lakehouse) -> None:
    docs(k3)
    upload(k3, a__csv=A)
    assert lake.ingest("kb-prod.docs").rows == 2
    assert ids(k3) == [1, 2]


def test_k3_120_what_does_not_match_is_not(k3: K3, lake: Lakehouse) -> None:
    docs(k3)
    upload(k3, a__txt=A)
    report = lake.ingest("kb-prod.docs")
    assert (report.batches, report.skipped, lake.jobs()) == (0, 1, [])


@pytest.mark.slow
def test_k3_121_what_another_place_has_is_discovered_and_taken(k3: K3, lake: Lakehouse, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    upload_to(theirs, {"2026/a.csv": A, "2026/a.txt": A})
    docs(k3, source=str(theirs))
    assert lake.ingest("kb-prod.docs").rows == 2
    upload_to(theirs, {"2026/b.csv": "id,name\n3,c\n"})
    assert [one.object for one in lake.ingest("kb-prod.docs").objects if one.outcome == "ingested"] == ["2026/b.csv"]
    assert ids(k3) == [1, 2, 3]
    assert not (Path(k3._warehouse.uri) / "uploads").exists(), "they stay where they are"


@pytest.mark.slow
def test_k3_122_an_object_is_triggered_whatever_was_taken_and_whatever_matches(k3: K3, lake: Lakehouse) -> None:
    docs(k3)
    make(k3, "manual")
    upload(k3, a__csv=A, b__data="id,name\n3,c\n")
    lake.ingest("kb-prod.docs")
    for key in ("a.csv", "b.data"):
        answer = k3.trigger_ingest("kb-prod", "docs", key)
        assert (answer["object"], answer["status"]) == (key, "INGEST_STATUS_INGESTED")
    assert ids(k3) == [1, 2, 3]
    with pytest.raises(NotFound, match=r"no\.csv"):
        k3.trigger_ingest("kb-prod", "docs", "no.csv")
    with pytest.raises(FailedPrecondition, match="manual"):
        k3.trigger_ingest("kb-prod", "manual", "a.csv")
    k3.disable_engine("kb-prod")
    with pytest.raises(FailedPrecondition, match="engine"):
        k3.trigger_ingest("kb-prod", "docs", "a.csv")


@pytest.mark.slow
def test_k3_123_the_rule_is_listed_shown_and_edited(k3: K3, lake: Lakehouse) -> None:
    docs(k3)
    (rule,) = k3.list_rules("kb-prod")
    name = str(rule["ruleId"])
    assert k3.get_rule("kb-prod", name) == rule
    changed = k3.update_rule("kb-prod", name, globs=["in/*.dat"], max_size=1000)
    assert (changed["globs"], changed["maxSize"], changed["excludes"]) == (["in/*.dat"], "1000", [])
    assert int(str(changed["updatedAt"])) > int(str(rule["updatedAt"]))
    (row,) = lake.sql("SHOW RULES")[0].to_pylist()  # type: ignore[union-attr]
    assert (row["rule_id"], row["globs"]) == (name, '["in/*.dat"]')
    upload_to(Path(lake.warehouse.uri) / "uploads" / "kb-prod", {"a.csv": A, "in/b.DAT": "id,name\n3,c\n"})
    lake.ingest("kb-prod.docs")
    assert ids(k3) == [3]
    bad: list[dict[str, Any]] = [{}, {"globs": []}, {"globs": [""]}, {"mime_types": ["csv"]}, {"min_size": "x"}]
    for refused in bad:
        with pytest.raises(InvalidArgument):
            k3.update_rule("kb-prod", name, **refused)
    for bucket, unknown in (("kb-prod", "rule_no"), ("nowhere", name)):
        with pytest.raises(NotFound):
            k3.get_rule(bucket, unknown)
        with pytest.raises(NotFound):
            k3.update_rule(bucket, unknown, enabled=True)
    with pytest.raises(PermissionDenied):
        K3(k3._services, Principal("u", "user")).update_rule("kb-prod", name, enabled=True)


@pytest.mark.slow
def test_k3_124_an_object_counts_once_by_its_etag(k3: K3, lake: Lakehouse) -> None:
    docs(k3)
    upload(k3, a__csv=A)
    for _ in range(2):
        lake.ingest("kb-prod.docs", "a.csv", force=False)
    assert ids(k3) == [1, 2]
    upload(k3, a__csv="id,name\n7,g\n")
    lake.ingest("kb-prod.docs", "a.csv", force=False)
    assert ids(k3) == [7]


@pytest.mark.slow
def test_k3_125_the_pipeline_and_its_rule_outlive_the_table(k3: K3, lake: Lakehouse) -> None:
    docs(k3, globs=["**/*.csv"], excludes=["**/TMP/**", "*.bak.csv"], mime_types=["text/*"], min_size=5, max_size=1000)
    (rule,) = k3.list_rules("kb-prod")
    upload_to(
        Path(lake.warehouse.uri) / "uploads" / "kb-prod",
        {"A.CSV": A, "x/tmp/b.csv": A, "old.BAK.csv": A, "small.csv": "id\n", "large.csv": "id\n" * 500},
    )
    report = lake.ingest("kb-prod.docs")
    assert (report.ingested, report.skipped) == (1, 4)
    k3.delete_table("kb-prod", "docs")
    assert k3.get_rule("kb-prod", str(rule["ruleId"])) == rule
    assert [one.id for one in lake.pipelines.all()] == [rule["pipelineId"]]
    docs(k3)
    k3.delete_table("kb-prod", "docs")
    assert len(k3.list_rules("kb-prod")) == 2, "also of a table without a schema"
