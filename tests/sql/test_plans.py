"""DRY RUN and APPLY PLAN, and whose right it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import CompactionSettings
from lakewarden.base.settings import Settings
from lakewarden.errors import InvalidArgument, NotFound, PermissionDenied, ScopesFailed, Unsupported
from lakewarden.sql.results import ResultRows, StatementDone
from tests.fixtures.lakes import NOTES, make_notes, notes, strong

_SMALL = Settings(compaction=CompactionSettings(min_eligible_segments=2))


@pytest.fixture
def lake(warehouse_uri: str) -> Iterator[Lakehouse]:
    """Two users with three flushed versions each."""
    with Lakehouse.open(warehouse_uri, settings=_SMALL) as opened:
        table = make_notes(opened)
        for number in range(3):
            for user in ("ann", "bob"):
                table.write(notes({number: f"{user} {number}"}), user=user)
            opened.flush()
        yield opened


def _rows(lake: Lakehouse, text: str, user: str = "root", role: str = "system") -> list[dict[str, Any]]:
    (result,) = lake.sql(text, user=user, role=role)
    assert isinstance(result, ResultRows)
    return result.to_pylist()


def _message(lake: Lakehouse, text: str, user: str = "root", role: str = "system") -> str:
    (result,) = lake.sql(text, user=user, role=role)
    assert isinstance(result, StatementDone)
    return result.message


def _plan_of(lake: Lakehouse, text: str, user: str = "root", role: str = "system") -> str:
    (plan_id,) = {row["plan_id"] for row in _rows(lake, text, user, role)}
    return str(plan_id)


def test_a_restore_is_previewed_and_applied(lake: Lakehouse) -> None:
    (row,) = _rows(lake, f"RESTORE TABLE {NOTES} TO VERSION AS OF 0 DRY RUN", "ann", "user")
    assert (row["user"], row["outcome"], row["version"]) == ("ann", "planned", 2)
    assert _message(lake, f"APPLY PLAN '{row['plan_id']}'", "ann", "user") == f"plan {row['plan_id']}: 1 done"
    assert strong(lake.table(NOTES), "ann") == {0: "ann 0"}


def test_what_moved_fails_with_its_code(lake: Lakehouse) -> None:
    plan_id = _plan_of(lake, f"RESTORE {NOTES} TO VERSION AS OF 0 DRY RUN", "ann", "user")
    lake.table(NOTES).write(notes({9: "later"}), user="ann")
    with pytest.raises(ScopesFailed, match="1 of 1 scopes failed") as failed:
        lake.sql(f"APPLY PLAN '{plan_id}'", user="ann", role="user")
    assert failed.value.code == "CONFLICT"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        f"VACUUM {NOTES} RETAIN 0 HOURS FORCE DRY RUN FOR ALL USERS",
        f"OPTIMIZE {NOTES} DRY RUN FOR ALL USERS",
        f"OPTIMIZE {NOTES} ZORDER BY (text) FOR ALL USERS DRY RUN",
        f"STORAGE COMPACT TABLE {NOTES} DRY RUN",
        f"STORAGE FLUSH TABLE {NOTES} DRY RUN",
        "STORAGE FLUSH ALL IN NAMESPACE chat DRY RUN",
    ],
)
def test_every_dry_run_names_a_plan(lake: Lakehouse, text: str) -> None:
    for number in range(4):
        for user in ("ann", "bob"):
            lake.table(NOTES).write(notes({0: "again", 10 + number: "more"}), user=user)
        if number < 3:
            lake.flush()
    before = {user: lake.table(NOTES).history(user=user)[0].version for user in ("ann", "bob")}
    plan_id = _plan_of(lake, text)
    assert {user: lake.table(NOTES).history(user=user)[0].version for user in before} == before
    assert _message(lake, f"APPLY PLAN '{plan_id}'") == f"plan {plan_id}: 2 done"
    for user, version in before.items():
        assert lake.table(NOTES).history(user=user)[0].version > version


def test_an_id_is_no_right(lake: Lakehouse) -> None:
    own = _plan_of(lake, f"RESTORE {NOTES} TO VERSION AS OF 0 DRY RUN", "ann", "user")
    every = lake.plan("optimize", NOTES, zorder=("text",)).plan_id
    drop, erasure = lake.plan("drop", NOTES).plan_id, lake.plan("erase", user="ann").plan_id
    for plan_id, user, role in (
        (own, "bob", "user"),
        (own, "ann", "anonymous"),
        (every, "ann", "user"),
        (drop, "ann", "service"),
    ):
        with pytest.raises(PermissionDenied):
            lake.sql(f"INSERT INTO {NOTES} VALUES (77, 'x'); APPLY PLAN '{plan_id}'", user=user, role=role)
    with pytest.raises(Unsupported, match="erase has no SQL statement"):
        lake.sql(f"APPLY PLAN '{erasure}'")
    assert {user: len(strong(lake.table(NOTES), user)) for user in ("ann", "bob")} == {"ann": 3, "bob": 3}, "nothing has run"
    assert _message(lake, f"APPLY PLAN '{own}'", "root", "dba") == f"plan {own}: 1 done"
    assert _message(lake, f"APPLY PLAN '{drop}'", "root", "dba") == f"plan {drop}: 1 done"


def test_what_an_erasure_did_is_not_told(lake: Lakehouse) -> None:
    plan = lake.plan("erase", user="ann")
    lake.apply(plan)
    with pytest.raises(Unsupported, match="erase has no SQL statement"):
        lake.sql(f"APPLY PLAN '{plan.plan_id}'", user="bob", role="user")


@pytest.mark.slow
def test_taking_a_place_takes_its_rights(lake: Lakehouse) -> None:
    lake.sql("CREATE USER 'ann' WITH PASSWORD 'Password-1234' ROLE user")
    plan_id = _plan_of(lake, f"RESTORE {NOTES} TO VERSION AS OF 0 DRY RUN", "ann", "user")
    assert _message(lake, f"EXECUTE AS USER 'ann' (APPLY PLAN '{plan_id}')", "svc", "service") == f"plan {plan_id}: 1 done"


def test_plans_that_are_none(lake: Lakehouse) -> None:
    with pytest.raises(NotFound):
        lake.sql("APPLY PLAN 'PL-000000000000-00000000'")
    with pytest.raises(InvalidArgument, match="not the id of a plan"):
        lake.sql("APPLY PLAN '../x'")


def test_who_applied_is_in_the_audit_log(lake: Lakehouse) -> None:
    plan_id = _plan_of(lake, f"RESTORE {NOTES} TO VERSION AS OF 0 DRY RUN", "ann", "user")
    lake.sql(f"APPLY PLAN '{plan_id}'", user="ann", role="user")
    (row,) = _rows(lake, "SELECT actor_user_id, action FROM system.audit_log WHERE action = 'APPLY_PLAN'")
    assert row == {"actor_user_id": "ann", "action": "APPLY_PLAN"}


@pytest.mark.slow
def test_a_move_and_a_drop_are_previewed_and_applied(lake: Lakehouse, tmp_path: Path) -> None:
    lake.create_storage("cold", type="filesystem", base=str(tmp_path / "cold"))
    move = _plan_of(lake, f"STORAGE MOVE TABLE {NOTES} TO cold DRY RUN", role="dba")
    drop = _plan_of(lake, f"DROP TABLE {NOTES} DRY RUN", role="dba")
    assert _rows(lake, "SELECT action FROM system.audit_log WHERE action IN ('MOVE_TABLE', 'DROP_TABLE')") == []
    with pytest.raises(PermissionDenied):
        lake.sql(f"APPLY PLAN '{drop}'", user="ann", role="service")
    _message(lake, f"APPLY PLAN '{move}'", role="dba")
    assert lake.table(NOTES).table.options.storage_id == "cold"
    with pytest.raises(ScopesFailed) as failed:
        lake.sql(f"APPLY PLAN '{drop}'", role="dba", user="root")
    assert failed.value.code == "CONFLICT", "it was planned at another place"
    _message(lake, f"APPLY PLAN '{_plan_of(lake, f'DROP TABLE {NOTES} DRY RUN', role='dba')}'", role="dba")
    assert lake.tables() == []
