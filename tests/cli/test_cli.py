"""Every command as a program sees it: exit status, standard output, standard error."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Column, Lakehouse
from lakewarden.base import VERSION
from lakewarden.cli.main import hoist, main
from lakewarden.errors import NotFound
from tests.fixtures.lakes import NOTES, eventual, make_notes, notes, scope_path, strong

_PROGRAM = str(Path(sys.executable).parent / "lakewarden")


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The one JSON list."""
        (line,) = self.out.splitlines()
        rows = json.loads(line)
        assert isinstance(rows, list)
        return rows

    @property
    def failure(self) -> tuple[str, str]:
        """Code and message of a failed command: the last line of the output, and the one line of the error output."""
        assert self.status == 1, self
        error = json.loads(self.out.splitlines()[-1])["error"]
        assert self.err == f"{error['code']}: {error['message']}\n"
        return error["code"], error["message"]


Call = Callable[..., Answer]


@pytest.fixture
def call(warehouse_uri: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs a command on the test's warehouse, in this process."""
    monkeypatch.setenv("LAKEWARDEN_WAREHOUSE", warehouse_uri)

    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Answer(_status(ended.value.code), out, err)

    return run


def _status(code: Any) -> int:
    return code if isinstance(code, int) else int(code is not None)


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """Two users with three flushed versions each, and a pending row of one."""
    with Lakehouse.open(warehouse_uri) as opened:
        table = make_notes(opened, options={"FLUSH_POLICY": "rows:1"})
        for text in ("a", "b", "c"):
            for user in ("ann", "bob"):
                table.write(notes({1: text, len(table.users()): text}), user=user)
            opened.flush()
        table.write(notes({7: "hot"}), user="ann")
        yield opened


def _program(*arguments: str, cwd: Path | None = None, **environment: str) -> Answer:
    done = subprocess.run(
        [_PROGRAM, *arguments], cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


# The program itself


@pytest.mark.slow
def test_the_first_command_that_writes_makes_the_warehouse_here(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEWARDEN_")}
    for command in (["sql", "CREATE NAMESPACE chat"], ["status"]):
        done = subprocess.run([_PROGRAM, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("nothing is pending\n", "")
    assert (tmp_path / "warehouse" / "_lakewarden" / "warehouse.json").is_file()


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["tables"],
        ["users"],
        ["plan"],
        ["check"],
        ["history", NOTES],
        ["tags", NOTES],
        ["flush", NOTES],
        ["vacuum", NOTES],
        ["erase", "--user", "ann"],
        ["export", "--user", "ann", "--to", "out"],
        ["erasures"],
        ["jobs", "list"],
        ["storage", "list"],
        ["repair"],
        ["upgrade"],
    ],
)
def test_a_mistyped_place_is_no_new_warehouse(command: list[str], call: Call, tmp_path: Path) -> None:
    mistyped = tmp_path / "mistyped"
    code, message = call(*command, "--warehouse", str(mistyped), "--format", "json").failure
    assert (code, str(mistyped) in message) == ("NOT_FOUND", True)
    assert not mistyped.exists()


def test_create_makes_one_whatever_the_command(call: Call, tmp_path: Path) -> None:
    assert call("status", "--create", "--warehouse", str(tmp_path / "made"), "--format", "json").rows == []
    assert call("status", "--warehouse", str(tmp_path / "made"), "--format", "json").rows == []


def test_what_there_is(lake: Lakehouse, call: Call) -> None:
    lake.sql("CREATE USER 'carl' WITH PASSWORD 'correct-horse-7' ROLE service")
    (table,) = call("tables", "--format", "json").rows
    assert (table["table"], table["type"], table["primary_key"], table["flush_policy"]) == (NOTES, "USER", ["id"], "rows:1")
    lake.table(NOTES).write(notes({1: "hot alone"}), user="dora")
    found = [(row["user"], row["role"], row["tables"]) for row in call("users", "--format", "json").rows]
    assert found == [("ann", None, [NOTES]), ("bob", None, [NOTES]), ("carl", "service", []), ("dora", None, [NOTES])]
    assert [row["user"] for row in call("users", "--table", NOTES, "--format", "json").rows] == ["ann", "bob", "dora"]
    assert call("users", "--table", "chat.nothing", "--format", "json").failure[0] == "NOT_FOUND"
    assert call("--version").out == f"lakewarden {VERSION}\n"


@pytest.mark.slow
def test_a_real_program_does_fails_and_is_misused(lake: Lakehouse, warehouse_uri: str) -> None:
    done = _program("flush", NOTES, "--format", "json", LAKEWARDEN_WAREHOUSE=warehouse_uri)
    assert (done.status, done.err) == (0, "")
    assert [(row["user"], row["outcome"]) for row in done.rows] == [("ann", "done")]

    failed = _program("--format=json", "history", "chat.nope", "--warehouse", warehouse_uri, "--user", "ann")
    assert failed.failure[0] == "NOT_FOUND"

    misused = _program("flush", "--warehouse", warehouse_uri)
    assert (misused.status, misused.out) == (2, "")
    assert "Missing argument" in misused.err
    assert strong(lake.table(NOTES), "ann")[7] == "hot"


@pytest.mark.slow
def test_a_cold_status_starts_neither_spark_nor_other_heavy_things(lake: Lakehouse, warehouse_uri: str) -> None:  # noqa: ARG001
    code = (
        "import sys\n"
        "from lakewarden.cli import main\n"
        "try:\n    main(['status'])\n"
        "except SystemExit as ended:\n    assert not ended.code\n"
        "heavy = ('pyspark', 'py4j', 'delta', 'dagster', 'pandas', 'sqlglot', 'polars')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    environment = os.environ | {"LAKEWARDEN_WAREHOUSE": warehouse_uri}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# Global options


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "json", "status"],
        ["--format=json", "status"],
        ["status", "--format", "json"],
        ["status", "--format=json"],
    ],
)
def test_json_before_and_after_the_command(lake: Lakehouse, call: Call, arguments: list[str]) -> None:  # noqa: ARG001
    (row,) = call(*arguments).rows
    assert (row["table"], row["user"], row["pending_rows"], row["last_operation"]) == (NOTES, "ann", 1, "MERGE")
    assert datetime.fromisoformat(row["oldest_pending"]).tzinfo == UTC


def test_the_warehouse_by_flag_before_or_after_wins_over_the_environment(
    lake: Lakehouse,  # noqa: ARG001
    call: Call,
    tmp_path: Path,
) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    Lakehouse.open(elsewhere).close()
    for arguments in (["--warehouse", elsewhere, "status"], ["status", f"--warehouse={elsewhere}"]):
        assert call(*arguments, "--format", "json").rows == []
    assert len(call("status", "--format", "json").rows) == 1


def test_words_after_two_dashes_are_no_options() -> None:
    given = hoist(["flush", "--", "--format", "json"])
    assert given.ordered == ["flush", "--", "--format", "json"]
    assert not given.as_json


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["status", "--nonsense"],
        ["status", "--format", "xml"],
        ["status", "--format"],
        ["flush"],
        ["vacuum", NOTES, "--retain", "soon"],
        ["history", NOTES, "--limit", "0"],
        ["restore", NOTES, "--version", "first"],
        ["storage", "create"],
        ["tag", NOTES],
        ["move", NOTES],
        ["move", NOTES, "--to", "cold", "--cancel"],
    ],
)
def test_wrong_usage(call: Call, arguments: list[str]) -> None:
    answer = call(*arguments)
    assert answer.status == 2
    assert answer.out == ""
    assert "Usage" in answer.err


def test_help(call: Call) -> None:
    for arguments in (["--help"], ["flush", "-h"], ["storage", "--help"]):
        answer = call(*arguments)
        assert (answer.status, answer.err) == (0, "")


def test_debug_shows_where_an_error_came_from(lake: Lakehouse, call: Call) -> None:  # noqa: ARG001
    assert call("history", "chat.nope", "--user", "ann").err.startswith("NOT_FOUND: ")
    with pytest.raises(NotFound):
        main(["--debug", "history", "chat.nope", "--user", "ann"])
    with pytest.raises(NotFound):
        main(["history", "chat.nope", "--user", "ann", "--debug"])


# The commands that only look


def test_plan(lake: Lakehouse, call: Call) -> None:  # noqa: ARG001
    rows = call("plan", "--format", "json").rows
    assert ("flush", "ann", "planned") in [(row["operation"], row["user"], row["outcome"]) for row in rows]
    assert call("plan", NOTES, "--format", "json").rows == rows
    assert "rows:1" in call("plan").out
    assert call("plan", "chat.nope", "--format", "json").failure[0] == "NOT_FOUND"


def test_history(lake: Lakehouse, call: Call) -> None:  # noqa: ARG001
    rows = call("history", NOTES, "--user", "ann", "--format", "json").rows
    assert [row["version"] for row in rows] == [2, 1, 0]
    assert rows[-1]["operation"] == "WRITE"
    limited = call("history", NOTES, "--user", "ann", "--limit", "1", "--before-version", "2", "--format", "json").rows
    assert limited == rows[1:2]
    table = call("history", NOTES, "--user", "ann")
    assert table.out.splitlines()[0].split() == ["version", "timestamp", "operation", "parameters", "operation_metrics"]
    assert len(table.out.splitlines()) == 4
    shown = datetime.fromisoformat(rows[0]["timestamp"])
    assert f"{shown:%Y-%m-%d %H:%M:%S}" in table.out.splitlines()[1]


def test_versions_of_a_user_table_want_a_user(lake: Lakehouse, call: Call) -> None:
    assert call("history", NOTES, "--format", "json").failure[0] == "INVALID_ARGUMENT"
    assert call("restore", NOTES, "--version", "0", "--format", "json").failure[0] == "INVALID_ARGUMENT"
    assert call("restore", NOTES, "--format", "json").failure[0] == "INVALID_ARGUMENT"
    assert call("restore", NOTES, "--timestamp", "yesterday", "--format", "json").failure[0] == "INVALID_ARGUMENT"
    assert len(lake.table(NOTES).history(user="ann")) == 3


@pytest.mark.slow
def test_check(lake: Lakehouse, call: Call) -> None:
    rows = call("check", "--format", "json").rows
    assert all(row["passed"] for row in rows)
    assert call("check", "local").status == 0
    assert call("check", "nowhere", "--format", "json").failure[0] == "NOT_FOUND"
    for data in scope_path(lake, "bob").glob("*.parquet"):
        data.unlink()
    answer = call("check", "--format", "json")
    assert answer.failure[0] == "CORRUPT"
    assert [row["subject"] for row in json.loads(answer.out.splitlines()[0]) if not row["passed"]] == [f"{NOTES}[bob]"]


# The commands that change tables


def test_flush(lake: Lakehouse, call: Call) -> None:
    assert call("flush", NOTES, "--user", "bob").out == "skipped: no pending writes\n"
    (row,) = call("flush", NOTES, "--format", "json").rows
    assert (row["table"], row["user"], row["outcome"], row["version"], row["error"]) == (NOTES, "ann", "done", 3, None)
    assert row["metrics"]["rows_upserted"] == 1
    assert call("flush", NOTES, "--format", "json").rows == []
    assert eventual(lake.table(NOTES), "ann")[7] == "hot"


def test_an_impossible_scope_is_not_just_one_without_rows(lake: Lakehouse, call: Call) -> None:
    lake.create_table("chat.rooms", type="SHARED", columns=[Column("id", "BIGINT")], primary_key=["id"])
    for table, user in ((NOTES, ""), (NOTES, "x" * 300), ("chat.rooms", "ann")):
        assert call("flush", table, "--user", user, "--format", "json").failure[0] == "INVALID_ARGUMENT"


def test_an_id_that_would_command_the_terminal_is_one_line_of_a_table(lake: Lakehouse, call: Call) -> None:
    odd = "a\nb\x1b[31m"
    lake.table(NOTES).write(notes({1: "hot"}), user=odd)
    answer = call("flush", NOTES, "--user", odd)
    assert len(answer.out.splitlines()) == 2
    assert r"a\nb\x1b[31m" in answer.out
    (row,) = call("history", NOTES, "--user", odd, "--format", "json").rows
    assert row["user_metadata"]["user"] == odd


def test_a_scope_that_fails_is_a_failed_command_and_the_others_are_done(lake: Lakehouse, call: Call) -> None:
    lake.table(NOTES).write(notes({7: "hot"}), user="bob")
    (scope_path(lake, "ann") / "_delta_log" / f"{2:020d}.json").unlink()
    answer = call("flush", NOTES, "--format", "json")
    code, message = answer.failure
    assert code == "CORRUPT"
    assert message.startswith("1 of 2 scopes failed; the first, ")
    outcomes = {row["user"]: row["outcome"] for row in json.loads(answer.out.splitlines()[0])}
    assert outcomes == {"ann": "failed", "bob": "done"}


@pytest.mark.slow
def test_compact_and_optimize(lake: Lakehouse, call: Call) -> None:
    table = lake.table(NOTES)
    for number in range(100, 106):
        table.write(notes({number: "x"}), user="ann")
        lake.flush()
    rows = eventual(table, "ann")
    (row,) = call("compact", NOTES, "--user", "ann", "--format", "json").rows
    assert (row["operation"], row["outcome"]) == ("compact", "done")
    outcomes = {row["user"]: row["outcome"] for row in call("optimize", NOTES, "--zorder", "text,id", "--format", "json").rows}
    assert outcomes["ann"] == "done"
    assert call("optimize", NOTES, "--zorder", "text", "--zorder", "oops", "--format", "json").failure[0] == "INVALID_ARGUMENT"
    assert eventual(table, "ann") == rows


def test_vacuum(lake: Lakehouse, call: Call) -> None:
    assert call("vacuum", NOTES, "--retain", "0", "--format", "json").failure[0] == "INVALID_ARGUMENT"
    lying = len(list(scope_path(lake, "ann").glob("*.parquet")))
    planned = call("vacuum", NOTES, "--user", "ann", "--retain", "0", "--force", "--dry-run", "--format", "json").rows
    assert [row["outcome"] for row in planned] == ["planned"]
    assert len(list(scope_path(lake, "ann").glob("*.parquet"))) == lying
    (row,) = call("vacuum", NOTES, "--user", "ann", "--retain", "0", "--force", "--format", "json").rows
    assert row["outcome"] == "done"
    assert row["paths"] == planned[0]["paths"]
    assert len(list(scope_path(lake, "ann").glob("*.parquet"))) == lying - len(row["paths"])
    assert row["paths"]


def test_restore(lake: Lakehouse, call: Call) -> None:
    table = lake.table(NOTES)
    before = strong(table, "ann")
    (plan,) = call("restore", NOTES, "--user", "ann", "--version", "0", "--dry-run", "--format", "json").rows
    assert (plan["outcome"], strong(table, "ann")) == ("planned", before)
    (row,) = call("restore", NOTES, "--user", "ann", "--version", "0", "--format", "json").rows
    assert row["outcome"] == "done"
    assert strong(table, "ann") == eventual(table, "ann") == {1: "a", 0: "a"}
    (entry,) = call("history", NOTES, "--user", "ann", "--limit", "1", "--format", "json").rows
    assert datetime.fromisoformat(entry["timestamp"]) == lake.table(NOTES).history(user="ann")[0].timestamp
    (row, other) = call("restore", NOTES, "--timestamp", datetime.now(UTC).isoformat(), "--format", "json").rows
    assert (row["outcome"], other["outcome"]) == ("skipped", "skipped")
    assert call("restore", NOTES, "--user", "ann", "--version", "99", "--format", "json").failure[0] == "NOT_FOUND"


def test_restore_can_drop_what_is_pending(lake: Lakehouse, call: Call) -> None:
    assert call("restore", NOTES, "--user", "ann", "--version", "1", "--discard-pending").status == 0
    table = lake.table(NOTES)
    assert lake.pending() == []
    assert 7 not in strong(table, "ann")
    assert [entry.version for entry in table.history(user="ann")] == [3, 2, 1, 0]


def test_tag(lake: Lakehouse, call: Call) -> None:  # noqa: ARG001
    (row,) = call("tag", NOTES, "--user", "ann", "--name", "gold", "--version", "1", "--format", "json").rows
    assert row == {"table": NOTES, "user": "ann", "name": "gold", "version": 1}
    assert call("tag", NOTES, "--user", "ann", "--name", "gold", "--format", "json").failure[0] == "ALREADY_EXISTS"
    assert call("tag", NOTES, "--user", "ann", "--name", "../gold", "--format", "json").failure[0] == "INVALID_ARGUMENT"
    assert call("tag", NOTES, "--name", "gold", "--format", "json").failure[0] == "INVALID_ARGUMENT"
    assert call("tags", NOTES, "--format", "json").rows == [row]
    assert call("tags", NOTES, "--user", "bob", "--format", "json").rows == []
    assert call("tag", NOTES, "--user", "bob", "--name", "gold", "--drop", "--format", "json").failure[0] == "NOT_FOUND"
    assert call("tag", NOTES, "--user", "ann", "--name", "gold", "--drop", "--version", "1").status == 2
    assert call("tag", NOTES, "--user", "ann", "--name", "gold", "--drop").status == 0
    assert call("tags", NOTES, "--format", "json").rows == []


def test_storages(lake: Lakehouse, call: Call, tmp_path: Path) -> None:
    base = str(tmp_path / "cold")
    (made,) = call("storage", "create", "cold", "--base", base, "--description", "slow", "--format", "json").rows
    assert (made["storage_id"], made["base_directory"], made["description"]) == ("cold", base, "slow")
    assert call("storage", "create", "cold", "--base", base, "--format", "json").failure[0] == "ALREADY_EXISTS"
    template = "{namespace}/{tableName}/u={userId}"
    (altered,) = call("storage", "alter", "cold", "--user-template", template, "--name", "Cold", "--format", "json").rows
    assert (altered["user_tables_template"], altered["storage_name"]) == (template, "Cold")
    assert call("storage", "alter", "cold", "--user-template", "{userId}", "--format", "json").failure[0] == "INVALID_ARGUMENT"
    assert [row["storage_id"] for row in call("storage", "list", "--format", "json").rows] == ["local", "cold"]
    assert call("storage", "drop", "cold").status == 0
    assert call("storage", "drop", "cold", "--format", "json").failure[0] == "NOT_FOUND"
    assert [storage.id for storage in lake.storages()] == ["local"]


def test_move(lake: Lakehouse, call: Call, tmp_path: Path) -> None:
    assert call("storage", "create", "cold", "--base", str(tmp_path / "cold")).status == 0
    assert call("move", NOTES, "--to", "nowhere", "--format", "json").failure[0] == "NOT_FOUND"
    rows = call("move", NOTES, "--to", "cold", "--format", "json").rows
    assert {(row["operation"], row["outcome"]) for row in rows} == {("move", "done")}
    assert all(str(row["uri"]).startswith(str(tmp_path / "cold")) for row in rows)
    assert "nothing to move" in call("move", NOTES, "--to", "cold").out
    assert {row["outcome"] for row in call("move", NOTES, "--cancel", "--format", "json").rows} == {"skipped"}
    assert lake.table(NOTES).table.options.storage_id == "cold"


def test_jobs(lake: Lakehouse, call: Call) -> None:
    queued = lake.enqueue("flush", NOTES)
    doomed = lake.enqueue("compact", NOTES)
    assert {row["status"] for row in call("jobs", "list", "--format", "json").rows[:2]} == {"queued"}
    (killed,) = call("jobs", "kill", doomed.job_id, "--format", "json").rows
    assert (killed["job_id"], killed["status"]) == (doomed.job_id, "cancelled")
    assert call("jobs", "kill", doomed.job_id, "--format", "json").failure[0] == "UNSUPPORTED"
    assert call("jobs", "kill", "FL-nope", "--format", "json").failure[0] == "NOT_FOUND"
    (run,) = call("jobs", "run", "--format", "json").rows
    assert (run["job_id"], run["status"]) == (queued.job_id, "completed")
    assert lake.pending() == []
    assert call("jobs", "run").out == "no job is queued\n"


def test_a_warehouse_that_cannot_be(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for where, code in ((str(tmp_path / "file" / "w"), "STORAGE_UNAVAILABLE"), ("ftp://x/y", "INVALID_ARGUMENT")):
        assert call("sql", "SELECT 1", "--warehouse", where, "--format", "json").failure[0] == code


@pytest.mark.slow
def test_export_erase_and_import(call: Call, lake: Lakehouse, tmp_path: Path) -> None:
    (exported,) = call("export", "--user", "ann", "--to", str(tmp_path / "out"), "--format", "json").rows
    assert (exported["table"], exported["rows"]) == (NOTES, len(strong(lake.table(NOTES), "ann")))
    (certificate,) = call("erase", "--user", "ann", "--table", NOTES, "--deep", "--format", "json").rows
    assert (certificate["result"], certificate["deep"], certificate["findings"]) == ("complete", True, [])
    assert strong(lake.table(NOTES), "ann") == {}
    assert (
        call("erasures", "--format", "json").rows == call("erasures", "--user", "ann", "--format", "json").rows == [certificate]
    )
    assert call("erasures", "--user", "bob", "--format", "json").rows == []
    code, message = call("import", "--from", str(tmp_path / "out"), "--user", "ann", "--format", "json").failure
    assert (code, "no finished export" in message) == ("NOT_FOUND", True), "the erasure removed the export"


def test_an_erasure_and_an_export_say_first_what_they_would_do(lake: Lakehouse, call: Call, tmp_path: Path) -> None:
    before, out = strong(lake.table(NOTES), "ann"), tmp_path / "out"
    for words in (["erase"], ["export", "--to", str(out)]):
        planned = call(*words, "--user", "ann", "--dry-run", "--format", "json").rows
        assert {row["outcome"] for row in planned} == {"planned"}
    assert strong(lake.table(NOTES), "ann") == before
    assert lake.erasures() == []
    assert not out.exists()


def test_a_user_of_whom_nothing_is_known_is_erased_only_where_that_is_said(lake: Lakehouse, call: Call, tmp_path: Path) -> None:
    for words in (["erase"], ["erase", "--dry-run"], ["erase", "--queue"], ["export", "--to", str(tmp_path / "out")]):
        assert call(*words, "--user", "anm", "--format", "json").failure[0] == "NOT_FOUND"
    assert lake.erasures() == []
    (certificate,) = call("erase", "--user", "anm", "--even-if-unknown", "--format", "json").rows
    assert (certificate["result"], certificate["findings"]) == ("complete", [])


def test_an_erasure_is_queued_under_a_keyed_hash(call: Call, lake: Lakehouse) -> None:
    (queued,) = call("erase", "--user", "ann", "--table", NOTES, "--queue", "--format", "json").rows
    asked = lake.requested_erasure(queued["request"])
    assert (asked.user, asked.tables, asked.deep) == ("ann", (NOTES,), False)
    assert strong(lake.table(NOTES), "ann"), "nothing is erased yet"


def test_what_an_erasure_finds_fails_it(call: Call, lake: Lakehouse) -> None:
    stray = scope_path(lake, "bob") / "ann" / "x"
    stray.parent.mkdir()
    stray.write_text("x")
    code, message = call("erase", "--user", "ann", "--format", "json").failure
    assert (code, str(stray) in message) == ("CONFLICT", True)


# Plans


def test_a_plan_goes_through_a_file(lake: Lakehouse, call: Call, tmp_path: Path) -> None:
    out = str(tmp_path / "plan.jsonl")
    rows = call("plan", NOTES, "--operation", "restore", "--user", "bob", "--version", "0", "--out", out, "--format", "json").rows
    assert [(row["operation"], row["outcome"], row["user"]) for row in rows] == [("restore", "planned", "bob")]
    done = call("apply", out, "--format", "json").rows
    assert [(row["outcome"], row["version"], row["plan_id"]) for row in done] == [("done", 3, rows[0]["plan_id"])]
    again = call("apply", rows[0]["plan_id"], "--format", "json").rows
    assert [(row["outcome"], row["version"]) for row in again] == [("done", 3)]
    assert eventual(lake.table(NOTES), "bob") == {0: "a", 1: "a"}


def test_a_dry_run_prints_the_id_that_apply_takes(lake: Lakehouse, call: Call) -> None:
    (row,) = call("restore", NOTES, "--user", "bob", "--version", "1", "--dry-run", "--format", "json").rows
    lake.table(NOTES).write(notes({9: "later"}), user="bob")
    refused = call("apply", row["plan_id"], "--format", "json")
    code, message = refused.failure
    assert code == "CONFLICT"
    assert "1 of 1 scopes failed" in message
    (failed,) = json.loads(refused.out.splitlines()[0])
    assert (failed["outcome"], failed["error"]["code"]) == ("failed", "CONFLICT")
    assert call("restore", NOTES, "--user", "bob", "--version", "1", "--dry-run").out.split()[-1] != row["plan_id"]


def test_a_plan_is_a_line_a_table_and_operation(lake: Lakehouse, call: Call) -> None:
    for number in range(30):
        lake.table(NOTES).write([{"id": 1, "text": "x"}], user=f"u{number}")
    rows = call("plan", NOTES, "--format", "json").rows
    assert len({(row["table"], row["operation"]) for row in rows}) == len(rows)
    (flush,) = (row for row in rows if row["operation"] == "flush")
    assert flush["scopes"] >= 30
    assert {"files_before", "files_after", "bytes"} <= flush.keys()
    every = call("plan", NOTES, "--all", "--format", "json").rows
    assert sum(row["scopes"] for row in rows) == len(every)
    assert call("plan", NOTES, "--limit", "7", "--format", "json").rows == every[:7]
    assert call("plan", NOTES, "--limit", "7").out.splitlines()[-1] == f"and {len(every) - 7} more: --all lists every scope"
    assert call("plan", NOTES, "--limit", "0").out == f"and {len(every)} more: --all lists every scope\n"


def test_the_line_of_a_plan_has_the_sums_of_its_scopes(lake: Lakehouse, call: Call) -> None:
    for number in range(30):
        lake.table(NOTES).write([{"id": 1, "text": "x" * number}], user=f"u{number}")
    rows = call("plan", NOTES, "--operation", "flush", "--all", "--format", "json").rows
    (line,) = call("plan", NOTES, "--operation", "flush", "--format", "json").rows
    assert line["scopes"] == len(rows)
    assert line["metrics"] == {name: sum(row["metrics"][name] for row in rows) for name in ("rows_pending", "bytes_pending")}
    assert (line["files_before"], line["bytes"]) == (None, None), "a plan does not know what else its scopes have"
    said = call("plan", NOTES, "--operation", "flush").out
    assert f"rows_pending={len(rows)}" in said
    assert " other reasons" in said
    assert re.search(r"bytes_pending=[0-9.]+ KiB", said)


def test_what_is_due_goes_through_a_file(lake: Lakehouse, call: Call, tmp_path: Path) -> None:
    out = str(tmp_path / "plan.jsonl")
    rows = call("plan", "--out", out, "--format", "json").rows
    assert ("flush", "ann") in [(row["operation"], row["user"]) for row in rows]
    assert {row["outcome"] for row in call("apply", out, "--format", "json").rows} == {"done"}
    assert eventual(lake.table(NOTES), "ann")[7] == "hot"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: text[:-30], "CORRUPT"),
        (lambda text: text.splitlines()[0], "CORRUPT"),
        (lambda text: "", "CORRUPT"),
        (lambda text: "[1]\n", "CORRUPT"),
        (lambda text: "\x80\n", "CORRUPT"),
        (lambda text: text.replace('"count":1', '"count":100001') + 100_000 * text.partition("\n")[2], "INVALID_ARGUMENT"),
        (lambda text: text.replace('"warehouse":"', '"warehouse":"0'), "INVALID_ARGUMENT"),
        (lambda text: text.replace('"version":0,"timestamp"', '"version":1,"timestamp"'), "INVALID_ARGUMENT"),
        (lambda text: text.replace('"user":"bob","log_id"', '"user":"ann","log_id"'), "CONFLICT"),
        (lambda text: text.replace("/bob", "/ann"), "CONFLICT"),
        (lambda text: text.replace('"parameters":{"version":"0"}', '"parameters":{"version":"1"}'), "CONFLICT"),
        (lambda text: text.replace('"plan_id":"PL-', '"plan_id":"../'), "CORRUPT"),
    ],
)  # fmt: skip
def test_a_file_that_was_changed_is_refused(
    lake: Lakehouse, call: Call, tmp_path: Path, change: Callable[[str], str], code: str
) -> None:
    out = tmp_path / "plan.jsonl"
    call("plan", NOTES, "--operation", "restore", "--user", "bob", "--version", "0", "--out", str(out))
    changed = change(out.read_text(encoding="utf-8"))
    assert changed != out.read_text(encoding="utf-8")
    out.write_text(changed, encoding="latin-1")
    assert call("apply", str(out), "--format", "json").failure[0] == code
    assert lake.table(NOTES).history(user="bob")[0].version == 2


def test_plans_that_are_not_there(lake: Lakehouse, call: Call, tmp_path: Path) -> None:  # noqa: ARG001
    assert call("apply", "PL-000000000000-00000000", "--format", "json").failure[0] == "NOT_FOUND"
    assert call("apply", str(tmp_path / "no.jsonl"), "--format", "json").failure[0] == "NOT_FOUND"
    assert call("plan", NOTES, "--operation", "fold", "--format", "json").failure[0] == "INVALID_ARGUMENT"
    assert call("plan", NOTES, "--operation", "import", "--format", "json").failure[0] == "UNSUPPORTED"
    assert call("plan", NOTES, "--user", "ann").status == 2
    nowhere = str(tmp_path / "no" / "plan.jsonl")
    assert call("plan", "--operation", "compact", "--out", nowhere, "--format", "json").failure[0] == "INVALID_ARGUMENT"


def test_the_demo_says_that_java_is_missing_before_it_makes_a_warehouse(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, message = call("demo", "--format", "json").failure
    assert (code, "JAVA_HOME" in message) == ("UNSUPPORTED", True)
    assert call("tables", "--format", "json").failure[0] == "NOT_FOUND", "no warehouse was made"


def test_ui_says_first_that_java_is_missing(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        answer = call("ui", "--port", str(taken.getsockname()[1]))
    said, why = answer.err.splitlines()
    assert "JAVA_HOME" in said
    assert why.startswith("INVALID_ARGUMENT: cannot serve")
