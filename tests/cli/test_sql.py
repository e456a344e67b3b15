"""The command `sql` as a program sees it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewarden.cli.main import main

Call = Callable[..., tuple[int, list[Any]]]
_TABLE = (
    "CREATE NAMESPACE app; CREATE USER TABLE app.t (id BIGINT PRIMARY KEY, d DECIMAL(10, 2), raw BYTES, at TIMESTAMP, data JSON)"
)


@pytest.fixture
def sql(warehouse_uri: str, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs `sql` with JSON output: the exit status, and the object of each line."""

    def run(*arguments: str) -> tuple[int, list[Any]]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["--warehouse", warehouse_uri, "--format", "json", "sql", *arguments])
        return int(ended.value.code or 0), [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_a_line_of_json_a_statement(sql: Call) -> None:
    assert sql(_TABLE) == (0, [{"message": "namespace app created"}, {"message": "table app.t created"}])
    values = "(1, 1.5, X'00ff', '2026-01-01T10:00:00+02:00', '{\"a\": 1}')"
    written = {"strategy": "WRITE_STRATEGY_KEYED_INSERT_SINGLE", "pending_drain": True, "warnings": []}
    assert sql(f"INSERT INTO app.t VALUES {values}") == (0, [{"rows_affected": 1, **written}])
    row = {"id": 1, "d": "1.50", "raw": "AP8=", "at": "2026-01-01T08:00:00.000000+00:00", "data": '{"a": 1}'}
    assert sql("SELECT * FROM app.t") == (0, [{"columns": list(row), "rows": [row]}])
    assert sql("SELECT sum(id) AS s, 'NaN'::DOUBLE AS n FROM app.t")[1][0]["rows"] == [{"s": 1, "n": "NaN"}]


def test_a_query_on_a_large_table_says_how_it_was_answered(sql: Call) -> None:
    sql("CREATE NAMESPACE app; CREATE SHARED TABLE app.t (id INT PRIMARY KEY, day TEXT NOT NULL) PARTITION BY (day)")
    sql("INSERT INTO app.t VALUES (1, 'monday')")
    status, (answer,) = sql("SELECT id FROM app.t", "--freshness", "oltp_only")
    how = {"strategy": "QUERY_STRATEGY_UNSPECIFIED", "served_by": "SERVED_BY_OLTP", "strategy_reason": "write-log scan"}
    assert (status, answer) == (0, {"columns": ["id"], "rows": [{"id": 1}], **how})
    assert sql("SELECT id FROM app.t", "--freshness", "eventual")[1][0]["rows"] == []
    assert sql("SELECT id FROM app.t", "--freshness", "fresh")[0] == 1


def test_jobs_are_named_and_run_unless_left(sql: Call) -> None:
    sql(f"{_TABLE}; INSERT INTO app.t (id) VALUES (1)")
    _, (left,) = sql("STORAGE FLUSH TABLE app.t", "--no-wait")
    assert left["job_id"].startswith("FL-")
    assert sql("STORAGE FLUSH TABLE app.t")[1] == [{"message": "skipped: already queued or running"}]
    sql("INSERT INTO app.t (id) VALUES (2)", "--user", "ada", "--role", "user")
    sql("CREATE SHARED TABLE app.s (id INT PRIMARY KEY); INSERT INTO app.s VALUES (1)")
    _, (several,) = sql("STORAGE FLUSH ALL IN NAMESPACE app")
    assert [job[:3] for job in several["job_ids"]] == ["FL-"]


def test_an_error_is_the_last_line_and_what_came_before_it_is_there(sql: Call) -> None:
    status, lines = sql("SELECT 1 AS a; SELECT * FROM app.t")
    assert status == 1
    assert lines[0] == {"columns": ["a"], "rows": [{"a": 1}]}
    assert lines[-1]["error"]["code"] == "NOT_FOUND"
    assert sql("SELECT 1; SELEC 2")[1][0]["error"]["code"] == "SYNTAX_ERROR"
    assert sql("SELECT 1", "--role", "emperor")[1][0]["error"]["code"] == "INVALID_ARGUMENT"


def test_statements_come_from_a_file_or_standard_input(sql: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "statements.sql"
    file.write_text("-- two of them\nSELECT 1 AS a;\nSELECT 2 AS a;\n")
    assert [line["rows"] for line in sql("-f", str(file))[1]] == [[{"a": 1}], [{"a": 2}]]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 3 AS a")))
    assert sql()[1][0]["rows"] == [{"a": 3}]
    assert sql("SELECT 1", "-f", str(file))[0] == 2
    assert sql("-f", str(tmp_path / "nothing.sql"))[0] == 2


def test_a_terminal_gets_tables(warehouse_uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--warehouse", warehouse_uri, "sql", "SELECT 1 AS a, 'x' AS b; CREATE NAMESPACE app; SELECT 1 AS a WHERE false"])
    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines()] == [
        ["a", "b"],
        ["1", "x"],
        ["namespace", "app", "created"],
        ["no", "rows"],
    ]


@pytest.mark.slow
def test_a_query_without_tables_loads_nothing_heavy_that_it_does_not_need(warehouse_uri: str) -> None:
    arguments = ["--warehouse", warehouse_uri, "--format", "json", "sql", "SELECT 1"]
    program = (
        "import json, sys\n"
        "from lakewarden.cli.main import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    answer, modules = done.stdout.splitlines()
    assert json.loads(answer)["rows"] == [{"1": 1}]
    heavy = {"pyspark", "py4j", "pandas", "polars", "boto3", "rich", "argon2", "dagster", "lakewarden.spark.session"}
    assert not heavy & set(json.loads(modules))


def test_a_query_that_names_no_user_says_whose_rows_it_shows(warehouse_uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Newcomers query as `root`, who has no rows of any tenant."""

    def said(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            main(["--warehouse", warehouse_uri, "sql", *arguments])
        return capsys.readouterr().err

    assert said(f"{_TABLE}; CREATE SHARED TABLE app.s (id BIGINT PRIMARY KEY)") == ""
    hint = "app.t: each user's rows are apart, and these are root's; --user names another\n"
    assert said("SELECT count(*) FROM app.t, app.s") == hint
    assert said("SELECT count(*) FROM app.t", "--user", "root") == ""
    assert said("SELECT count(*) FROM app.s") == ""


def test_a_block_of_a_text_is_written_as_a_whole(sql: Call) -> None:
    sql(_TABLE)
    texts = {
        "BEGIN; INSERT INTO app.t (id) VALUES (1); ROLLBACK": 0,
        "BEGIN; INSERT INTO app.t (id) VALUES (2); INSERT INTO app.t (id) VALUES (2); COMMIT": 1,
        "BEGIN; INSERT INTO app.t (id) VALUES (3)": 1,
        "BEGIN; INSERT INTO app.t (id) VALUES (4); DELETE FROM app.t WHERE id = 4; INSERT INTO app.t (id) VALUES (5); COMMIT": 0,
    }
    for text, status in texts.items():
        assert sql(text)[0] == status, text
    assert sql("SELECT id FROM app.t") == (0, [{"columns": ["id"], "rows": [{"id": 5}]}])
