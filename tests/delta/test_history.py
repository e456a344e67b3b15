"""History: one entry a commit, newest first, paged, ours as we meant it and others' as they wrote it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakewarden.delta.reading.history import history, normal_predicate
from lakewarden.errors import InvalidArgument, NotFound
from tests.delta.scopes import flush, people, table_of, target


def test_our_commits_say_what_they_did(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2), first_seq=5)
    flush(scope, people(2, 3), first_seq=7, deletes=[{"id": 1}])
    merge, first = history(scope)
    assert (first.version, first.operation, first.parameters, first.read_version) == (0, "WRITE", {"mode": "ErrorIfExists"}, 0)
    assert (merge.version, merge.operation, merge.read_version) == (1, "MERGE", 0)
    assert merge.parameters == {"predicate": "target.id = source.id"}
    counts = {name: merge.operation_metrics[f"numTargetRows{name}"] for name in ("Inserted", "Updated", "Deleted")}
    assert counts == {"Inserted": 1, "Updated": 1, "Deleted": 1}
    assert (merge.user_metadata["job_id"], merge.user_metadata["first_seq"], merge.user_metadata["last_seq"]) == ("FL-1", 7, 9)
    assert timedelta() <= merge.timestamp - datetime(2024, 5, 1, tzinfo=UTC) < timedelta(minutes=1), (
        "by the clock that was passed"
    )
    assert merge.engine_info.startswith("Lakewarden/")


def test_commits_of_others_keep_their_own_words(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    for text in ('{"job": "x"}', "no json", "[1]"):
        properties = CommitProperties(custom_metadata={"userMetadata": text})
        DeltaTable(scope.uri).update({"name": "'z'"}, predicate="id = 1", commit_properties=properties)
    found = history(scope, limit=3)
    updates = [entry.user_metadata for entry in found]
    assert updates == [{"raw": "[1]"}, {"raw": "no json"}, {"job": "x"}]
    assert found[0].parameters["predicate"] == "id = 1"
    assert found[0].operation_metrics["num_updated_rows"] == found[0].operation_metrics["numTargetRowsUpdated"] == 1
    assert [entry.version for entry in found] == [3, 2, 1]


def test_pages_list_every_version_once(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(12):
        flush(scope, people(number), first_seq=number)
    seen: list[int] = []
    before: int | None = None
    while page := history(scope, limit=5, before_version=before):
        seen += [entry.version for entry in page]
        before = page[-1].version
    assert seen == list(range(11, -1, -1))
    assert history(scope, before_version=0) == []
    assert history(scope, limit=0) == []
    assert [entry.version for entry in history(scope, limit=1, before_version=99)] == [11]


def test_bad_pages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        history(target(tmp_path / "none"))
    for limit, before in ((-1, None), (None, -1)):
        with pytest.raises(InvalidArgument):
            history(target(tmp_path / "none"), limit, before)


@pytest.mark.disk  # counts on a checkpoint every ten commits
def test_commits_that_left_the_log_end_the_list(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    for number in range(12):
        flush(scope, people(number), first_seq=number)
    for version in range(5):
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    assert [entry.version for entry in history(scope)] == list(range(11, 4, -1))
    with pytest.raises(NotFound, match="versions 9 to 11"):
        table_of(scope, 3)
    with pytest.raises(NotFound, match="the newest is 11"):
        table_of(scope, 12)
    with pytest.raises(InvalidArgument):
        table_of(scope, -1)


def test_order_is_by_version_whatever_the_clocks_said(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1))
    flush(scope, people(2), first_seq=1)
    commit = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for said, shown in ((5, datetime(1970, 1, 1, 0, 0, 0, 5000, UTC)), (1 << 62, datetime(9999, 12, 31, tzinfo=UTC))):
        lines[0]["commitInfo"]["timestamp"] = said
        commit.write_text("\n".join(json.dumps(line) for line in lines))
        assert [(entry.version, entry.timestamp == shown) for entry in history(scope)] == [(1, True), (0, False)]


def test_a_table_of_others_has_a_history_too(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    (entry,) = history(target(tmp_path / "t"))
    assert (entry.version, entry.read_version, entry.user_metadata) == (0, 0, {})


def test_k3_names_a_read_version_for_every_commit(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, people(1, 2))
    DeltaTable(scope.uri).delete("id = 1")
    commit = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    commit.write_text(commit.read_text().replace('"readVersion":0,', ""))
    flush(scope, people(3), first_seq=5)
    found = history(scope)
    assert [entry.read_version for entry in found] == [1, None, 0]
    assert [entry.k3_read_version for entry in found] == [1, 0, 0]


@pytest.mark.parametrize(("text", "plain"), [
    ('["(id#3022L = 4)"]', "id = 4"),
    ('["((id#1L = 4) AND (x#22 > 5))"]', "(id = 4) AND (x > 5)"),
    ('["(a#1 = 1)","(b#2 = 2)"]', "a = 1 AND b = 2"),
    ("(a = 1) OR (b = 2)", "(a = 1) OR (b = 2)"),
    ("id = 4", "id = 4"),
    ("[]", ""),
    ("true", "true"),
])  # fmt: skip
def test_predicates_are_shown_plainly(text: str, plain: str) -> None:
    assert normal_predicate(text) == plain
