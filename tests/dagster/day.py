"""An operator's day in Dagster's pages, over a small shop. After each step, all who know of a tenant say the same.

Rows come, a scope breaks, a storage goes away, rows fail an expectation, restores go wrong and right, the daemon is killed.

Takes the pictures of docs/first-day.md again, and prints how long each step took. The place of the shop stands in the pictures:

    python -m tests.dagster.day /srv/shop
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakewarden.catalog.model import Column
from lakewarden.cli.main import main as cli
from lakewarden.client import Lakehouse
from lakewarden.client.dagster_links import form_path
from lakewarden.errors import LakewardenError
from tests.fixtures.chromium import start_browser
from tests.fixtures.pages import Pages
from tests.fixtures.patience import PATIENCE
from tests.fixtures.servers import free_port
from tests.fixtures.ui import Ui, ui

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ORDERS, RETURNS = "shop.orders", "shop.returns"
TENANTS = ("acme", "birch", "cedar")
MOST = 10
"""What an amount may be, by the expectation."""

State = Mapping[str, str]
"""What is wrong with each tenant of `shop.orders` that is not well."""
BROKEN, FAILED = "broken", "failed check"
WELL: State = {}

_SUITE = {
    "name": "orders",
    "expectations": [
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "min_value": 0, "max_value": MOST}}
    ],
}
_CHECKS = {"nothing_broken": BROKEN, "all_checks_pass": FAILED, "nothing_late": "late"}
_DAGSTER = """query($tenants: [String!]) {
  orders: assetNodeOrError(assetKey: {path: ["shop", "orders"]}) { ... on AssetNode { ...partitions
    latestMaterializationByPartition(partitions: $tenants) {
      partition metadataEntries { label ... on IntMetadataEntry { intValue } } } } }
  returns: assetNodeOrError(assetKey: {path: ["shop", "returns"]}) { ... on AssetNode { ...partitions } }
  health: assetNodeOrError(assetKey: {path: ["health"]}) { ... on AssetNode { assetChecksOrError { ... on AssetChecks { checks {
    name executionForLatestMaterialization { evaluation { success
      metadataEntries { label ... on MarkdownMetadataEntry { mdStr } } } } } } } } }
}
fragment partitions on AssetNode {
  assetPartitionStatuses { ... on DefaultPartitionStatuses { failedPartitions materializedPartitions } } }"""


def make_shop(root: Path) -> str:
    """Three tenants with two versions of their orders each, and a table on a storage of its own; the URI of the warehouse."""
    (root / "expectations").mkdir()
    (root / f"expectations/{ORDERS}.json").write_text(json.dumps(_SUITE))
    tables = {ORDERS: {"FLUSH_POLICY": "rows:2"}, RETURNS: {"FLUSH_POLICY": "rows:1", "STORAGE_ID": "archive"}}
    columns = [Column("id", "BIGINT"), Column("item", "TEXT", nullable=False), Column("amount", "BIGINT")]
    with Lakehouse.open(uri := str(root / "warehouse")) as lake:
        lake.create_namespace("shop")
        lake.create_storage("archive", type="filesystem", base=str(root / "archive"))
        for name, options in tables.items():
            lake.create_table(name, type="USER", columns=columns, primary_key=["id"], options=options)
    write(uri, "acme", 1, table=RETURNS)
    for number in (1, 2):
        for tenant in TENANTS:
            write(uri, tenant, number)
        with Lakehouse.open(uri) as lake:
            lake.flush()
    return uri


def write(uri: str, tenant: str, *ids: int, amount: int = 1, table: str = ORDERS) -> None:
    with Lakehouse.open(uri) as lake:
        lake.table(table).write([{"id": one, "item": f"item {one}", "amount": amount} for one in ids], user=tenant)


@dataclass(frozen=True)
class Sources:
    """All who know how the tenants are: Dagster's partitions and health, `status`, and the rows themselves."""

    url: str
    uri: str

    def agree(self, expected: State, versions: Mapping[str, int]) -> None:
        """Waits until all say what is expected, and until each tenant's page is of the version that its table has."""
        latest: list[object] = []

        def same() -> bool:
            dagster = self.ask(_DAGSTER, tenants=TENANTS)
            says = [partitions_of(dagster["orders"]), health_of(dagster["health"])]
            shown = versions_of(dagster["orders"])
            red = {tenant: why for tenant, why in expected.items() if why == BROKEN}
            latest[:] = [*says, shown]
            if says != [red, expected] or any(shown.get(tenant, -1) < version for tenant, version in versions.items()):
                return False
            latest.extend([status := self.status(), rows := self.rows(), tables := self.tables()])
            return status == rows == expected and tables == {tenant: shown[tenant] for tenant in tables}

        wait_until(same, lambda: f"{expected} and {versions} in all of {latest}")

    def ask(self, query: str, **variables: object) -> dict[str, Any]:
        """GraphQL, as the pages do."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        assert "errors" not in found, found["errors"]
        asked: dict[str, Any] = found["data"]
        return asked

    def listed(self) -> list[dict[str, Any]]:
        """`lakewarden status`, as programs read it."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            cli(["--warehouse", self.uri, "--format", "json", "status"])
        found: list[dict[str, Any]] = json.loads(out.getvalue())
        return found

    def status(self) -> State:
        words = {"CORRUPT": BROKEN, "CONSTRAINT_VIOLATION": FAILED}
        return {one["user"]: words[one["code"]] for one in self.listed() if one["table"] == ORDERS and one["code"]}

    def rows(self) -> State:
        found = {tenant: self.read(tenant) for tenant in TENANTS}
        wrong = {tenant: FAILED for tenant, rows in found.items() if not isinstance(rows, str) and max(rows.values()) > MOST}
        return {**wrong, **{tenant: BROKEN for tenant, rows in found.items() if rows == "CORRUPT"}}

    def read(self, tenant: str, table: str = ORDERS) -> dict[int, int] | str:
        """The amounts by id, or the code of the error."""
        with Lakehouse.open(self.uri) as lake:
            try:
                return {row["id"]: row["amount"] for row in lake.table(table).read(user=tenant).to_pylist()}
            except LakewardenError as error:
                return error.code

    def tables(self) -> dict[str, int]:
        """The versions of the Delta tables that can be opened, by delta-rs."""
        places = {tenant: Path(self.uri, "data/shop/orders", tenant) for tenant in TENANTS if self.read(tenant) != "CORRUPT"}
        return {tenant: DeltaTable(str(place)).version() for tenant, place in places.items()}


def partitions_of(node: Mapping[str, Any]) -> State:
    return dict.fromkeys(node["assetPartitionStatuses"]["failedPartitions"], BROKEN)


def versions_of(node: Mapping[str, Any]) -> dict[str, int]:
    """Of each tenant's newest event."""
    events = filter(None, node["latestMaterializationByPartition"])
    entries = {event["partition"]: {one["label"]: one.get("intValue") for one in event["metadataEntries"]} for event in events}
    return {tenant: of["delta/version"] for tenant, of in entries.items()}


def health_of(node: Mapping[str, Any]) -> State:
    """The tenants that the red checks name; a check of which the page shows no result counts as one that names nobody."""
    checks = {one["name"]: one["executionForLatestMaterialization"] for one in node["assetChecksOrError"]["checks"]}
    assert checks.keys() == _CHECKS.keys()
    missing = {name: "no result" for name, shown in checks.items() if not (shown and shown["evaluation"])}
    found = {name: shown["evaluation"] for name, shown in checks.items() if name not in missing}
    worst = {
        name: "".join(entry["mdStr"] for entry in one["metadataEntries"] if entry["label"] == "worst")
        for name, one in found.items()
        if not one["success"]
    }
    return {**missing, **{tenant: _CHECKS[name] for name, text in worst.items() for tenant in re.findall(r"`(\w+)`", text)}}


def wait_until(seen: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not seen():
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain for {what()}", pytrace=False)
        time.sleep(0.5)


@dataclass
class Day:
    """What an operator meets and does, in this order."""

    pages: Pages
    root: Path
    images: Path | None = None
    """Where pictures are kept, if they are."""
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TENANTS, 1))
    """The version that each tenant's page has to show at least."""

    @property
    def uri(self) -> str:
        return self.pages.warehouse

    @property
    def sources(self) -> Sources:
        return Sources(self.pages.url, self.uri)

    def all_say(self, expected: State, **newer: int) -> None:
        self.versions |= newer
        self.sources.agree(expected, self.versions)

    def rows_come_from_another_process(self) -> None:
        self.all_say(WELL)
        write(self.uri, "acme", 3, 4)
        began = time.monotonic()
        self.all_say(WELL, acme=2)
        self.seconds["a row's flush"] = time.monotonic() - began
        page = partition("acme")
        self.pages.until(lambda text: "flush_job" in text and "history" in text, "flushed", again=page)

    def a_scope_breaks(self) -> None:
        Path(self.uri, "data/shop/orders/cedar/_delta_log/00000000000000000001.json").write_text("no JSON")
        write(self.uri, "cedar", 3, 4)
        self.all_say({"cedar": BROKEN})
        self.pages.until(lambda text: "failed" in text, "red", again=partition("cedar"))
        self.pages.open("/locations/lakewarden/asset-groups/lakewarden_health/lineage")
        self.see(lambda text: "2 / 3 Passed" in text, "red", height=900)

    def a_storage_goes_away(self) -> None:
        (self.root / "archive").rename(self.root / "unmounted")
        write(self.uri, "acme", 2, table=RETURNS)
        write(self.uri, "birch", 3, 4)
        self.all_say({"cedar": BROKEN}, birch=2)

    def the_scope_is_repaired(self) -> None:
        """From the health, by preview and plan; the storage is still away."""
        pages = self.pages
        pages.open("/assets/health?view=overview")
        self.see(
            lambda text: "worst" in text and "repair" in text and "CORRUPT" in text, "worst", width=1600, height=520, to="worst"
        )
        pages.launch(pages.link("repair"), "RUN_SUCCESS", "repair-preview")
        pages.until(lambda text: "/guess/repair_job" in text, "repair-plan")
        self.keep_event("repair", "STEP_OUTPUT", "/guess/repair_job")
        pages.launch(pages.link("/guess/repair_job"), "RUN_SUCCESS", "repaired")
        self.all_say(WELL)
        assert self.sources.read("cedar") == dict.fromkeys((1, 2, 3, 4), 1)

    def the_storage_comes_back(self) -> None:
        """Until then its rows wait, and it has marked nobody."""
        returns = [(one["user"], one["pending_rows"], one["code"]) for one in self.sources.listed() if one["table"] == RETURNS]
        assert returns == [("acme", 1, None)]
        assert self.sources.read("acme", RETURNS) == "STORAGE_UNAVAILABLE"
        wait_until(self._flush_failed, lambda: "the flush on the storage that is away to fail")
        assert partitions_of(self.sources.ask(_DAGSTER, tenants=TENANTS)["returns"]) == WELL
        (self.root / "unmounted").rename(self.root / "archive")
        self.pages.launch(form_path("flush_job", "flush", {"scopes": {RETURNS: ["acme"]}}), "RUN_SUCCESS", "returned")
        assert self.sources.read("acme", RETURNS) == {1: 1, 2: 1}
        self.all_say(WELL)

    def _flush_failed(self) -> bool:
        query = "{runsOrError(filter: {statuses: [FAILURE]}) { ... on Runs { results { runConfigYaml } } }}"
        return any(RETURNS in run["runConfigYaml"] for run in self.sources.ask(query)["runsOrError"]["results"])

    def rows_fail_an_expectation(self) -> None:
        write(self.uri, "acme", 5, amount=50)
        write(self.uri, "acme", 6)
        self.all_say({"acme": FAILED}, acme=3)

    def a_restore_goes_wrong(self) -> None:
        """First to a version that is not there, then to one that is not the right one."""
        self.restore("birch", 999, "RUN_FAILURE")
        self.restore("birch", 0, "goes")
        self.all_say({"acme": FAILED}, birch=3)
        assert self.sources.read("birch") == {1: 1}

    def a_restore_goes_right(self) -> None:
        self.restore("birch", 2, "comes")
        self.all_say({"acme": FAILED}, birch=4)
        assert self.sources.read("birch") == dict.fromkeys((1, 2, 3, 4), 1)

    def a_failed_check_blocks_a_vacuum(self) -> None:
        check = "expect_column_values_to_be_between_amount"
        self.pages.open(f"/assets/shop/orders?view=checks&checkDetail={check}")
        self.see(lambda text: check in text and "acme" in text, "check", height=620)
        form = form_path("vacuum_job", "vacuum", {"tables": [ORDERS], "look": True, "dry_run": False})
        self.pages.launch(form, "RUN_FAILURE", "vacuum")
        self.pages.until(lambda text: "CONFLICT" in text and "acme" in text, "blocked")
        self.keep_event("blocked", "STEP_FAILURE", "CONFLICT")
        self.all_say({"acme": FAILED})

    def a_user_is_restored(self) -> None:
        """In one look and two runs: the rows that failed go, and what is right stays."""
        self.pages.open(partition("acme"))
        self.see(lambda text: "history" in text and "list all versions" in text, "history", height=940)
        self.restore("acme", 2, "goes", keep=True)
        self.all_say(WELL, acme=4)
        assert self.sources.read("acme") == dict.fromkeys((1, 2, 3, 4), 1)

    def restore(self, tenant: str, version: int, shows: str, *, keep: bool = False) -> None:
        """From the tenant's page; where there is no such version, the preview fails and nothing changes."""
        pages, refused = self.pages, shows == "RUN_FAILURE"
        pages.open(partition(tenant))
        pages.until(lambda text: "list all versions" in text, f"{tenant}-{version}")
        form = pages.link("list all versions").replace("to:+%27%27", f"to:+{version}")
        pages.launch(form, shows if refused else "RUN_SUCCESS", f"{tenant}-{version}-preview")
        if refused:
            return
        apply = "/guess/restore_shop__orders/playground/setup?config=ops:"
        pages.until(lambda text: shows in text and apply in text, f"{tenant}-{version}-rows")
        form = pages.link(apply)
        if keep:
            self.keep_event("preview", "STEP_OUTPUT", apply)
            pages.open(form)
            self.see(lambda text: "Launch Run" in text and "plan: PL-" in text, "plan", height=560)
        pages.launch(form, "RUN_SUCCESS", f"{tenant}-{version}-applied")
        if keep:
            pages.until(lambda text: "plan_id=PL-" in text, f"{tenant}-{version}-restored", again=partition(tenant))
            self.see(lambda text: "plan_id=PL-" in text, "restored", height=940, to="history")

    def the_daemon_is_killed(self, server: Ui) -> None:
        write(self.uri, "birch", 5, 6)
        said = server.kill_daemon()
        assert server.process.returncode == 1
        assert "Dagster ended unexpectedly" in said

    def numbers_are_plotted(self) -> None:
        self.pages.open("/assets/shop/orders?view=overview")
        self.pages.until(lambda text: "Plots" in text, "overview")
        self.pages.click("Plots")
        self.pages.until(lambda text: "delta/version" in text, "plots")

    def all_is_green(self) -> None:
        """Behind the next start, which flushes what waited; a check of everything finds nothing."""
        self.all_say(WELL, birch=5)
        self.pages.launch(form_path("check_all_job", "check_all", {"quick": False}), "RUN_SUCCESS", "checked")
        self.all_say(WELL)
        for group in ("shop", "lakewarden_health"):
            self.pages.open(f"/locations/lakewarden/asset-groups/{group}/lineage")
            self.see(all_pass, "green", height=900)
        left = self.sources.listed
        wait_until(lambda: not any(one["code"] or one["pending_rows"] for one in left()), lambda: f"an empty log: {left()}")

    def a_table_comes(self) -> None:
        """It becomes an asset by itself."""
        with Lakehouse.open(self.uri) as lake:
            lake.create_table("shop.parcels", type="SHARED", columns=[Column("id", "BIGINT")], primary_key=["id"])
        group = "/locations/lakewarden/asset-groups/shop/lineage"
        self.pages.until(lambda text: "parcels" in text, "reloaded", again=group)

    def see(self, shown: Callable[[str], bool], name: str, *, height: int, width: int = 1600, to: str = "") -> None:
        """Waits for what a page shows, and takes a picture of it where pictures are taken."""
        self.pages.until(shown, name)
        if self.images is not None:
            self.pages.picture(self.images / f"first-day-{name}.png", shown, height=height, width=width, to=to)

    def keep_event(self, name: str, event: str, shown: str) -> None:
        """Of a run's page the events of one kind: others have a stack trace, with the directories of this machine."""
        if self.images is not None:
            run = self.pages.browser.current_url.partition("?")[0].removeprefix(self.pages.url)
            self.pages.open(f"{run}?logs=type%3A{event}")
            self.see(lambda text: shown in text, name, height=600, width=1360)


def all_pass(text: str) -> bool:
    """Whether each table of a lineage has all of its checks green."""
    counted = re.findall(r"(\d+) / (\d+) Passed", text)
    return "Passed" in text and "ailed" not in text and all(passed == of for passed, of in counted)


def partition(tenant: str) -> str:
    return f"/assets/shop/orders?view=partitions&partition={tenant}"


def live(root: Path, browser: Chrome, images: Path | None = None) -> Day:
    """The whole day, in `root`."""
    uri, port = make_shop(root), free_port()
    (root / "shots").mkdir()
    day = Day(Pages(browser, f"http://127.0.0.1:{port}", uri, root / "shots"), root, images)
    with ui(uri, root / "home", port, root) as server:
        for step in _until_the_crash(day):
            began = time.monotonic()
            step()
            day.seconds[step.__name__] = time.monotonic() - began
        day.the_daemon_is_killed(server)
    with ui(uri, root / "home", port, root):
        day.all_is_green()
        day.numbers_are_plotted()
        day.a_table_comes()
    return day


def _until_the_crash(day: Day) -> Iterator[Callable[[], None]]:
    yield day.rows_come_from_another_process
    yield day.a_scope_breaks
    yield day.a_storage_goes_away
    yield day.the_scope_is_repaired
    yield day.the_storage_comes_back
    yield day.rows_fail_an_expectation
    yield day.a_restore_goes_wrong
    yield day.a_restore_goes_right
    yield day.a_failed_check_blocks_a_vacuum
    yield day.a_user_is_restored


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.dagster.day")
    parser.add_argument("place", type=Path, help="a directory that is not there yet")
    place: Path = parser.parse_args().place
    place.mkdir()
    with start_browser() as browser:
        day = live(place, browser, IMAGES)
    for what, seconds in day.seconds.items():
        sys.stdout.write(f"{what:32} {seconds:6.1f} s\n")


if __name__ == "__main__":
    main()
