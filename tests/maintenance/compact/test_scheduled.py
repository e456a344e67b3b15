"""What runs by itself goes by the ratio of the table or the warehouse; who asks for a compaction gets all that can be folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import CompactionSettings, FlushSettings
from lakewarden.base.settings import Settings
from lakewarden.cli.main import main
from tests.fixtures.lakes import NOTES, make_notes, notes

pytestmark = pytest.mark.disk

FOLDED = 40
"""Rows of the file that a compaction made before."""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    """A scope with one file of 40 rows, and four newer ones of one."""
    with Lakehouse.open(str(tmp_path)) as lake:
        make_notes(lake)
        _flush(lake, range(FOLDED))
        for key in range(4):
            _flush(lake, [100 + key])
        yield lake


def _flush(lake: Lakehouse, keys: Sequence[int] | range) -> None:
    lake.table(NOTES).write(notes(dict.fromkeys(keys, "text")), user="ann")
    lake.flush()


def _folds(lake: Lakehouse, **how: object) -> bool:
    (report,) = lake.compact(NOTES, user="ann", dry_run=True, **how)  # type: ignore[arg-type]  # one of its options
    return report.outcome == "planned"


def test_who_asks_for_it_and_what_runs_by_itself(lake: Lakehouse) -> None:
    assert _folds(lake)
    assert not _folds(lake, scheduled=True)
    assert not _folds(lake, ratio=3)
    assert _folds(lake, ratio=10)
    assert _folds(lake, scheduled=True, ratio=0), "what is said comes first"
    assert [report.operation for report in lake.plan() if report.operation == "compact"] == []
    lake.alter_warehouse({"compaction.ratio": 10})
    assert _folds(lake, scheduled=True)
    lake.sql(f"ALTER TABLE {NOTES} SET TBLPROPERTIES (COMPACTION_RATIO = 9.5)")
    assert not _folds(lake, scheduled=True)
    lake.sql(f"ALTER TABLE {NOTES} SET TBLPROPERTIES (COMPACTION_RATIO = 0)")
    assert _folds(lake, scheduled=True)
    lake.sql(f"ALTER TABLE {NOTES} SET TBLPROPERTIES (COMPACTION_RATIO = DEFAULT)")
    lake.alter_warehouse({"compaction.ratio": "default"})
    assert not _folds(lake, scheduled=True)


def test_a_verdict_by_the_ratio_hides_nothing_from_who_asks(lake: Lakehouse) -> None:
    lake.compact(scheduled=True)
    (quiet,) = lake.compact(scheduled=True)
    assert (quiet.outcome, quiet.metrics) == ("skipped", {"scopes_quiet": 1})
    (done,) = lake.compact()
    assert (done.outcome, done.metrics["files_removed"]) == ("done", 5)


def test_by_statement_and_as_a_queued_job(lake: Lakehouse) -> None:
    session = lake.session(user="svc", role="service")
    assert "skipped" in str(session.sql(f"STORAGE COMPACT TABLE {NOTES} RATIO 3"))
    assert "compact of" in str(session.sql(f"STORAGE COMPACT TABLE {NOTES} RATIO 10"))
    lake.run_jobs()
    (job,) = (one for one in lake.jobs() if one.job_type == "compact")
    assert (job.parameters["ratio"], job.status) == ("10.0", "completed")
    assert lake.table(NOTES).history(user="ann")[0].parameters["ratio"] == "10.0"


def test_by_command(lake: Lakehouse, capsys: pytest.CaptureFixture[str]) -> None:
    def ran(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main([*words, "--warehouse", lake.warehouse.uri])
        return int(left.value.code or 0), "".join(capsys.readouterr())

    assert "skipped" in ran("compact", NOTES, "--ratio", "3")[1]
    assert "skipped" in ran("compact", NOTES, "--scheduled", "--look")[1]
    assert ran("compact", NOTES, "--ratio", "-1")[0] == 1
    assert "compaction.ratio" in ran("settings")[1]
    assert ran("settings", "set", "compaction.ratio", "much") == (
        1,
        "INVALID_ARGUMENT: settings: compaction.ratio = 'much': write a number, ≥ 0, ≤ 1000000; or default\n",
    )
    assert "12.5" in ran("settings", "set", "compaction.ratio", "12.5")[1]
    assert "done" in ran("compact", NOTES, "--scheduled")[1]
    assert [(one.key, one.value) for one in lake.settings() if one.value != one.default] == [("compaction.ratio", 12.5)]


def test_behind_a_flush(tmp_path: Path) -> None:
    after = Settings(flush=FlushSettings(compact_after=True), compaction=CompactionSettings(min_eligible_segments=3))
    with Lakehouse.open(str(tmp_path), settings=after) as lake:
        make_notes(lake)
        for first in (range(FOLDED), [100], [101], [102]):
            _flush(lake, first)
        newest = lake.table(NOTES).history(user="ann")[0]
        assert (newest.operation, newest.operation_metrics["numRemovedFiles"]) == ("COMPACT", 3), "the large one stays"


@pytest.mark.slow
def test_rows_versions_and_restores_are_those_of_the_flushes(tmp_path: Path) -> None:
    """Each version is read, and some are restored, beside a model: a dictionary for each flush."""
    held: dict[int, str] = {}
    at: dict[int, dict[int, str]] = {}
    with Lakehouse.open(str(tmp_path), settings=Settings(compaction=CompactionSettings(min_eligible_segments=3))) as lake:
        table = make_notes(lake)

        def rows(version: int | None = None) -> dict[int, str]:
            return {row["id"]: row["text"] for row in table.read(user="ann", version=version).to_pylist()}

        for turn in range(14):
            fresh = {turn * 5 + key: f"text {turn}" for key in range(5)} | ({turn: "replaced"} if turn % 4 == 3 else {})
            held |= fresh
            table.write(notes(fresh), user="ann")
            for report in (*lake.flush(), *lake.compact(scheduled=True)):
                if report.outcome == "done" and report.version is not None:
                    at[report.version] = dict(held)
        assert sorted(at) == list(range(max(at) + 1))
        assert max(at) > 15, "some were compactions"
        assert all(rows(version) == expected for version, expected in at.items())
        for version in (max(at) - 1, 2):
            (restored,) = lake.restore(NOTES, user="ann", version=version, dry_run=False)
            assert restored.fault is None
            assert rows() == at[version]
