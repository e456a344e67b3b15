"""Options of templates and rules, given in SQL and by K3's calls: each kind comes as it was given, and is shown so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.errors import LakewardenError
from tests.ingest.pipelines.uploads import ingest, make, rows, table, upload


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "w")) as opened:
        yield opened


def shown(lake: Lakehouse) -> dict[str, object]:
    (one,) = rows(lake, "SHOW PIPELINES IN n")
    found: dict[str, object] = json.loads(str(one["options"]))
    return found


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("NULLS = ('NA', '-')", {"nulls": ["NA", "-"]}),
        ("NULLS = ['NA', '-']", {"nulls": ["NA", "-"]}),
        ("NULLS = ARRAY['NA', '-']", {"nulls": ["NA", "-"]}),
        ('NULLS = \'["NA", "-"]\'', {"nulls": ["NA", "-"]}),
        ("NULLS = (-999, 'NA', 1.50, true, none)", {"nulls": ["-999", "NA", "1.50", "true", "none"]}),
        ("NULLS = ('NA')", {"nulls": ["NA"]}),
        ("NULLS = 'NA'", {"nulls": ["NA"]}),
        ("NULLS = 'a,b'", {"nulls": ["a,b"]}),
        ("NULLS = ('a,b', 'it''s', '[x]', '')", {"nulls": ["a,b", "it's", "[x]", ""]}),
        ("NULLS = '[x]'", {"nulls": ["[x]"]}),
        ("NULLS = ('[]')", {"nulls": ["[]"]}),
        ("NULLS = ()", {"nulls": []}),
        ("NULLS = (NULL, 0)", {"nulls": ["NULL", "0"]}),
        ("NULLS = -999", {"nulls": ["-999"]}),
        ("COLUMNS = ('id', 'price')", {"columns": ["id", "price"]}),
        ('COLUMNS = (id, "price")', {"columns": ["id", "price"]}),
        ("HEADER = false, SKIP_LINES = 1, DELIMITER = ';'", {"header": False, "skip_lines": 1, "delimiter": ";"}),
        ("header = 'false', skip_lines = '1'", {"header": False, "skip_lines": 1}),
    ],
)
def test_options_of_sql_are_shown_as_they_were_given(lake: Lakehouse, options: str, told: dict[str, object]) -> None:
    make(lake, options)
    assert shown(lake) == told


@pytest.mark.parametrize("options", ["NULLS = (('a'), 'b')", "NULLS = ('a' 'b')", "NULLS = ('a',)", "NULLS = ('a'"])
def test_a_list_that_is_none_is_refused(lake: Lakehouse, options: str) -> None:
    with pytest.raises(LakewardenError):
        make(lake, options)
    assert not rows(lake, "SHOW PIPELINES IN n")


def test_rows_are_read_by_the_lists(lake: Lakehouse) -> None:
    make(lake, "NULLS = ('NA', '-'), COLUMNS = ('id', 'price')")
    upload(lake, {"a.csv": "x,y\n1,NA\n2,-\n3,4\n"})
    ingest(lake)
    found = rows(lake, "SELECT id, price FROM n.t ORDER BY id")
    assert [tuple(row.values()) for row in found] == [(1, None), (2, None), (3, 4)]


def test_a_rule_takes_lists_and_a_glob_that_begins_with_a_bracket(lake: Lakehouse) -> None:
    make(lake, "GLOBS = ('a/*.csv', 'b/*.csv'), EXCLUDES = ('**/old-*'), MIN_SIZE = 10, ENABLED = false")
    (rule,) = rows(lake, "SHOW RULES IN n")
    assert [json.loads(str(rule[name])) for name in ("globs", "excludes")] == [["a/*.csv", "b/*.csv"], ["**/old-*"]]
    assert (rule["min_size"], rule["enabled"]) == (10, False)
    lake.sql(f"ALTER RULE {rule['rule_id']} SET GLOBS = '[ab]*.csv', EXCLUDES = (), MIME_TYPES = ('text/csv', 'text/*')")
    (rule,) = rows(lake, "SHOW RULES IN n")
    found = [json.loads(str(rule[name])) for name in ("globs", "excludes", "mime_types")]
    assert found == [["[ab]*.csv"], [], ["text/csv", "text/*"]]


@pytest.mark.parametrize("nulls", [["NA", "-"], ("NA", "-"), '["NA", "-"]'])
def test_k3_gives_lists_and_their_text(lake: Lakehouse, nulls: object) -> None:
    lake.create_namespace("n")
    lake.k3.create_table_pipeline("n", "t", "csv", {"nulls": nulls, "header": True, "skip_lines": 0, "GLOBS": ["*.csv"]})
    assert shown(lake) == {"nulls": ["NA", "-"], "header": True, "skip_lines": 0}
    upload(lake, {"a.csv": "id,name\n1,NA\n2,b\n"})
    ingest(lake)
    assert table(lake) == [(1, None), (2, "b")]
