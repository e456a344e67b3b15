"""What a check or an operation found broken is shown until something mends it, and finds it right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden import Lakehouse
from lakewarden.base.scope import Scope
from lakewarden.catalog.state.failed_checks import ROOT
from lakewarden.cli.main import main
from lakewarden.maintenance.check.memory import named, nameless
from lakewarden.maintenance.planning.health import health
from lakewarden.maintenance.planning.status import ScopeStatus
from tests.fixtures.lakes import NOTES, make_notes, notes, scope_path

pytestmark = pytest.mark.disk


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    """Two users with two versions each; the first flush of a table is its version 0."""
    with Lakehouse.open(str(tmp_path / "warehouse")) as lake:
        table = make_notes(lake)
        for text in ("a", "b"):
            for user in ("ann", "bob"):
                table.write(notes({1: text, 2: text}), user=user)
            lake.flush()
        yield lake


@dataclass(frozen=True)
class Hidden:
    """The live data file of ann's, put aside."""

    path: Path
    aside: Path

    @classmethod
    def of(cls, lake: Lakehouse, aside: Path) -> Hidden:
        path = Path(str(scope_path(lake, "ann")))
        manifest = json.loads((path / "manifest.json").read_text())
        (live,) = (path / segment["path"] for segment in manifest["segments"])
        shutil.move(live, aside / live.name)
        return cls(live, aside / live.name)

    def put_back(self) -> None:
        shutil.move(self.aside, self.path)


@pytest.fixture
def hidden(lake: Lakehouse, tmp_path: Path) -> Hidden:
    return Hidden.of(lake, tmp_path)


def red(lake: Lakehouse) -> list[ScopeStatus]:
    """What is shown as broken; the lists and the numbers say the same."""
    shown = [one for one in lake.status() if one.code]
    (table,) = lake.overview().tables
    (seen,) = health(lake.warehouse)
    assert [(one.user, one.reason) for one in lake.overview().scopes if one.code] == [(one.user, one.reason) for one in shown]
    assert table.broken_scopes == seen.broken_scopes + seen.failed_scopes == len(shown)
    return shown


def failed(lake: Lakehouse, *, quick: bool = False) -> set[tuple[str, str, str]]:
    return {(one.subject, one.check, one.code) for one in lake.check(quick=quick) if not one.passed}


def fails(lake: Lakehouse) -> bool:
    """Whether a flush of a row of ann's, which has to read her table, finds it broken."""
    lake.table(NOTES).write(notes({1: "c"}), user="ann")
    (report,) = lake.flush()
    assert report.fault is None or report.fault.code == "CORRUPT"
    return report.fault is not None


@pytest.mark.slow
def test_what_a_check_found_is_found_quickly_and_shown_until_repaired(lake: Lakehouse, hidden: Hidden) -> None:
    assert failed(lake, quick=True) == set(), "nobody of ours came by"
    found = failed(lake)
    assert found == {(f"{NOTES}[ann]", "readable", "CORRUPT")}
    assert failed(lake, quick=True) == found
    (shown,) = red(lake)
    assert (shown.table, shown.user, shown.code) == (NOTES, "ann", "CORRUPT")
    assert shown.command == f"lakewarden repair {NOTES} --user ann"
    assert shown.reason.startswith("failed check readable: ")
    assert hidden.path.name in shown.reason
    assert [one.outcome for one in lake.repair(NOTES) if one.outcome != "skipped"] == ["done"]
    assert red(lake) == []
    assert failed(lake, quick=True) == set()
    assert lake.warehouse.state.list(ROOT) == []


@pytest.mark.usefixtures("hidden")
def test_a_restore_to_what_is_there_heals_it(lake: Lakehouse) -> None:
    assert failed(lake)
    lake.restore(NOTES, user="ann", version=0, dry_run=False)
    assert red(lake) == []
    assert failed(lake, quick=True) == set()


def test_what_a_flush_found_is_shown_until_one_succeeds(lake: Lakehouse, hidden: Hidden) -> None:
    assert fails(lake)
    (shown,) = red(lake)
    assert (shown.user, shown.pending_rows, shown.code) == ("ann", 1, "CORRUPT")
    assert shown.reason.startswith("flush failed: ")
    assert shown.command == f"lakewarden repair {NOTES} --user ann"
    assert failed(lake, quick=True) == {(f"{NOTES}[ann]", "readable", "CORRUPT")}
    hidden.put_back()
    assert [one.outcome for one in lake.flush()] == ["done"]
    assert [one.reason.partition(":")[0] for one in red(lake)] == ["failed check readable"], "a flush reads not all"
    assert failed(lake, quick=True) == set()
    assert red(lake) == []


def test_a_flush_heals_what_only_flushes_found_without_a_check(lake: Lakehouse, hidden: Hidden) -> None:
    assert fails(lake)
    hidden.put_back()
    lake.flush()
    assert red(lake) == []


@pytest.mark.parametrize("operation", ["compact", "optimize", "vacuum"])
def test_what_maintenance_found_is_shown_and_what_it_changes_is_checked_again(
    lake: Lakehouse, hidden: Hidden, operation: str
) -> None:
    torn = hidden.path.parent / "_delta_log" / "00000000000000000001.json"
    text = torn.read_text()
    torn.write_text("{")
    torn.with_name("00000000000000000002.json").write_text("{")
    reports = {
        "compact": lambda: lake.compact(NOTES, look=True),
        "optimize": lambda: lake.optimize(NOTES, look=True),
        "vacuum": lambda: lake.vacuum(NOTES, look=True, dry_run=False),
    }[operation]()
    assert {one.scope.user for one in reports if one.fault} == {"ann"}
    (shown,) = red(lake)
    assert shown.reason.startswith(f"{operation} failed: ")
    torn.write_text(text)
    torn.with_name("00000000000000000002.json").unlink()
    hidden.put_back()
    assert failed(lake, quick=True) == set()
    assert red(lake) == []


@pytest.mark.usefixtures("hidden")
def test_an_erasure_leaves_none_and_no_reason_names_the_user(lake: Lakehouse) -> None:
    assert fails(lake)
    assert failed(lake)
    state = lake.warehouse.state
    kept = state.list(ROOT)
    assert len(kept) == 2
    for one in kept:
        assert "ann" not in one.key
        assert b"ann" not in state.get(one.key).replace(b"cannot", b"")
    lake.erase("ann")
    assert state.list(ROOT) == []
    assert red(lake) == []


def test_a_log_that_cannot_be_read_is_shown_with_what_repairs_it(lake: Lakehouse, capsys: pytest.CaptureFixture[str]) -> None:
    table = lake.table(NOTES)
    for text in ("c", "d", "e"):
        table.write(notes({1: text}), user="ann")
    state = lake.warehouse.state
    middle = sorted(one.key for one in state.list("log") if "/segments/" in one.key or "seg" in one.key)[1]
    state.delete([middle])
    with Lakehouse.open(lake.warehouse.uri) as other:
        (shown,) = [one for one in other.status() if one.code]
        (numbers,) = other.overview().tables
    assert (shown.table, shown.user, shown.code) == (NOTES, None, "CORRUPT")
    assert (shown.command, numbers.broken_scopes) == (f"lakewarden repair {NOTES}", 1)
    with pytest.raises(SystemExit):
        main(["--warehouse", lake.warehouse.uri, "--format", "json", "status", "--all"])
    first, second = json.loads(capsys.readouterr().out)
    assert first["broken_scopes"] == 1
    assert (second["code"], second["command"]) == ("CORRUPT", f"lakewarden repair {NOTES}")
    assert second["reason"]


def test_a_reason_without_the_name_is_whole_again_with_it(lake: Lakehouse) -> None:
    catalog, name = lake.warehouse.catalog.read(), lake.table(NOTES).table.name

    @given(st.text("abAB !.[]{}/ö\\", min_size=1, max_size=4), st.text("ab [].:ö", max_size=9))
    def whole(user: str, more: str) -> None:
        target = lake.warehouse.target(catalog, Scope(name, user))
        said = f"{target.scope}: 12 34 {target.uri}/x.parquet{more}"
        assert named(nameless(said, target), target) in (said, "")
        assert nameless(f"{said} of {user}!", target) == ""

    whole()
