"""The page: one file, nothing from a network, every name escaped; its figures are those of JSON and of the metrics."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml
from msgspec.structs import replace as replace_struct
from prometheus_client.parser import text_string_to_metric_families

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.state.failed_checks import CheckResult
from lakewarden.catalog.state.fleet_days import SurveySums, WorstTable
from lakewarden.cli.observe import table_row, warehouse_row
from lakewarden.client.fleet_metrics import metrics_text
from lakewarden.client.fleet_page import fleet_page
from lakewarden.maintenance.planning.fleet import Fleet
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import NOTES, make_notes, notes
from tests.fixtures.servers import unavailable

pytestmark = pytest.mark.disk

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
EVIL = "<script>alert('u')</script>"


class Page(HTMLParser):
    """What a browser makes of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "srcset", "action", "data", "poster")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two tables: one with broken, failed, late and small files, and one in which all is well."""
    clock, root = Clock(START), tmp_path_factory.mktemp("fleet")
    settings = Settings(compaction=CompactionSettings(min_eligible_segments=2))
    with Lakehouse.open(str(root / "warehouse"), clock=clock, settings=settings) as lake:
        table = make_notes(lake, options={"FLUSH_POLICY": "interval:60"})
        lake.sql("CREATE USER TABLE chat.calm (id BIGINT PRIMARY KEY)")
        lake.table("chat.calm").write([{"id": 1}], user="ann")
        for turn in range(3):
            for user in ("ann", "bob", "cid", EVIL):
                table.write(notes({turn: "a"}), user=user)
            lake.flush()
        table.write(notes({1: "b"}), user="ann")
        lake.flush()
        clock.now += timedelta(minutes=1)
        table.write(notes({9: "b"}), user=EVIL)
        clock.now += timedelta(minutes=20)
        failures = [CheckResult("bob", "one_row_per_key", 1, False), CheckResult("cid", "readable", 1, False, reason=EVIL)]
        lake.warehouse.failed_checks.record(table.table.id, failures)
        yield lake.fleet()


def test_the_verdict_is_one_line_and_the_worst_table_stands_first(fleet: Fleet) -> None:
    assert fleet.verdict == "5 scopes: 1 broken, 1 with a failed check, 1 late; all else well"
    assert [one.name for one in fleet.tables] == [NOTES, "chat.calm"]
    text = Page(fleet_page(fleet)).text
    assert fleet.verdict in text
    assert text.index(f"{NOTES} USER") < text.index("chat.calm USER")


def test_no_name_is_markup_and_nothing_is_loaded(fleet: Fleet) -> None:
    name = TableName(fleet.tables[0].health.table.namespace, "<script>")
    health = replace(fleet.tables[0].health, table=name)
    evil = replace(fleet, tables=(replace(fleet.tables[0], health=health), *fleet.tables[1:]), warehouse=EVIL)
    found = fleet_page(evil)
    page = Page(found)
    assert "script" not in page.tags
    assert {"chat.<script>", EVIL} <= {word.strip() for word in page.words}
    assert EVIL in page.text
    assert all(link.startswith(("http://127.0.0.1:3000/guess/", "data:,")) for link in page.links), page.links
    assert not re.search(r"@import|url\(|\bon\w+=", found)


def test_links_fill_the_forms_that_help(fleet: Fleet) -> None:
    health = fleet.tables[0].health
    plain = replace(
        health, worst=tuple(replace(one, examples=one.examples[:1]) for one in health.worst if one.severity != "late")
    )
    shown = replace(fleet, tables=(replace(fleet.tables[0], health=plain),))
    links = [urlsplit(link) for link in Page(fleet_page(shown, "https://dagster.example")).links if "guess" in link]
    forms = {link.path.split("/")[2]: dict(parse_qsl(link.query)) for link in links}
    assert {link.netloc for link in links} == {"dagster.example"}
    assert yaml.safe_load(forms["repair_job"]["config"]) == {"ops": {"repair": {"config": {"table": NOTES, "user": "cid"}}}}
    assert forms["restore_chat__notes"]["tags[0][value]"] == "bob"
    assert yaml.safe_load(forms["compact_job"]["config"]) == {"ops": {"compact": {"config": {"tables": [NOTES]}}}}


def test_an_id_that_is_in_no_link_keeps_back_no_form_without_users(fleet: Fleet) -> None:
    """It is among those with many small files, and is late itself."""
    forms = {urlsplit(link).path.split("/")[2] for link in Page(fleet_page(fleet)).links if "guess" in link}
    assert {"compact_job", "optimize_job"} <= forms
    assert "flush_job" not in forms


def test_page_rows_and_metrics_say_the_same(fleet: Fleet) -> None:
    whole, rows = warehouse_row(fleet), {one.name: table_row(one) for one in fleet.tables}
    text = Page(fleet_page(fleet)).text
    families = text_string_to_metric_families(metrics_text(fleet))
    metrics = {(sample.name, *sorted(sample.labels.values())): sample.value for family in families for sample in family.samples}
    for figure, metric in {
        "pending_rows": "backlog_rows",
        "late_scopes": "late_scopes",
        "broken_scopes": "broken_scopes",
        "failed_scopes": "failed_check_scopes",
        "files": "files",
        "bytes": "bytes",
    }.items():
        each = {name: _figures(row)[figure] for name, row in rows.items()}
        assert {name: metrics[f"lakewarden_{metric}", name] for name in rows} == each
        assert _figures(whole)[figure] == sum(each.values())
    planned = fleet.tables[0].planned[0]
    assert (planned.operation, planned.files > 0, planned.unknown) == ("compact", True, 0)
    assert metrics["lakewarden_planned_files", NOTES, "compact"] == planned.files
    assert f"{planned.files} → {planned.made}" in text
    assert fleet.debt.bytes > 0
    assert metrics["lakewarden_dead_bytes", NOTES] == fleet.tables[0].debt.bytes == _figures(whole)["dead_bytes"]
    flushes = fleet.tables[0].week[0]
    assert metrics["lakewarden_operations_total", NOTES, "done", "flush"] == flushes["done"] == 13
    assert not [key for key in metrics if {"ann", "bob", "cid", EVIL} & set(map(str, key))], "no label names a user"


def _figures(row: dict[str, object]) -> dict[str, int]:
    found = row["figures"]
    assert isinstance(found, dict)
    return found


def test_what_is_not_known_is_said_with_its_number(fleet: Fleet) -> None:
    status = fleet.tables[0].health.status
    totals = replace(status.totals, dead_unknown=3, compact=replace(status.totals.compact, unknown=1_234))
    health = replace(fleet.tables[0].health, status=replace(status, totals=totals, scopes_unknown=7))
    text = Page(fleet_page(replace(fleet, tables=(replace(fleet.tables[0], health=health),)))).text
    for said in ("files and bytes of 7 scopes", "compact would do is not known of 1,234 scopes", "not known of 3 scopes"):
        assert said in text
    assert "Nothing is known of schedules" in text
    assert "Every scope's rows, files and bytes are known." in Page(fleet_page(fleet)).text


def test_an_empty_warehouse_has_a_page(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path)) as lake:
        text = Page(fleet_page(lake.fleet())).text
    assert "0 scopes: all well" in text
    assert "There is no table yet." in text


def test_prometheus_own_tool_finds_nothing_wrong_with_the_metrics(fleet: Fleet) -> None:
    program = shutil.which("promtool")
    if program is None:
        unavailable("prometheus", "there is no promtool: install the package prometheus")
    text = metrics_text(replace(fleet, surveys=(_survey(),)))
    found = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def _survey(place: str = "s3://lake/others") -> SurveySums:
    worst = {
        "damaged": [WorstTable(f"{place}/{EVIL}", {"hollow": 3, "log-gap": 1}, f"{EVIL} is missing")],
        "unreadable": [WorstTable(f"{place}/shut", {}, "denied")],
    }
    moment = int(START.timestamp() * 1000)
    tables = {"damaged": 12, "unreadable": 1, "catalog": 2, "sound": 1_985}
    return SurveySums(place, moment, tables, {"hollow": 12}, 4_321, 5 << 30, 1_234, 7 << 30, 11, worst, "a1b2c3")


def test_tables_of_others_are_on_the_page_in_rows_and_in_metrics(fleet: Fleet) -> None:
    surveyed = replace(fleet, surveys=(_survey(), _survey("/data/<script>")))
    page = Page(found := fleet_page(surveyed))
    for said in ("s3://lake/others 2026-05-01 12:00 UTC 2,000 12 1 2 1,985 4,321 1,234 5.0 GiB 7.0 GiB", f"{EVIL} is missing"):
        assert said in page.text
    assert page.text.index("log-gap") < page.text.index("denied")
    assert "script" not in page.tags
    assert not re.search(r"@import|url\(|\bon\w+=", found)
    row = warehouse_row(surveyed)["surveys"]
    assert isinstance(row, list)
    assert row[0]["tables"] == {"damaged": 12, "unreadable": 1, "catalog": 2, "sound": 1_985}
    assert {row[0][name] for name in ("files", "small_files", "bytes", "dead_bytes")} == {4_321, 1_234, 5 << 30, 7 << 30}
    assert row[0]["worst"]["damaged"][0]["damage"] == {"hollow": 3, "log-gap": 1}
    families = text_string_to_metric_families(metrics_text(replace(fleet, surveys=(_survey(),))))
    metrics = {(sample.name, *sorted(sample.labels.values())): sample.value for family in families for sample in family.samples}
    assert (
        metrics["lakewarden_surveyed_tables", "a1b2c3", "damaged"]
        == metrics["lakewarden_surveyed_damage", "a1b2c3", "hollow"]
        == 12
    )
    assert metrics["lakewarden_surveyed_dead_bytes", "a1b2c3"] == 7 << 30
    assert metrics["lakewarden_surveyed_at_seconds", "a1b2c3"] == START.timestamp()
    assert not [key for key in metrics if "others" in str(key)], "a path may name anybody"


def test_only_the_worst_ten_of_all_places_are_listed_each_once(fleet: Fleet) -> None:
    surveys = []
    for place in ("s3://b", "s3://b/c", "s3://d"):
        below = "s3://b/c" if place == "s3://b" else place  # one place is in another
        many = [WorstTable(f"{below}/{number:02}", {"hollow": number}) for number in range(1, 9)]
        surveys.append(replace_struct(_survey(place), worst={"damaged": many}))
    text = Page(fleet_page(replace(fleet, surveys=tuple(surveys)))).text
    assert [text.count(f"/0{number}") for number in (8, 4, 3)] == [2, 2, 0]


def test_a_warehouse_without_surveys_shows_none(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path)) as lake:
        make_notes(lake).write(notes({1: "x"}), user="ann")
        lake.flush()
        lake.book_fleet()
        found = lake.fleet()
    assert "Tables of others" not in fleet_page(found)
    assert warehouse_row(found)["surveys"] == []
    assert "surveyed" not in metrics_text(found)
