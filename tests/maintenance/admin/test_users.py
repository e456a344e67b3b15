"""Users through the gate, and what the audit log says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.base.scope import TableName
from lakewarden.catalog.access import OPERATOR, Principal, TableOf
from lakewarden.catalog.changes.users import UserChange, find_user
from lakewarden.catalog.model import User
from lakewarden.catalog.names import Role
from lakewarden.catalog.session_gate import Door
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.errors import InvalidArgument, NotFound, PermissionDenied
from lakewarden.maintenance.admin.users import change_user, create_user, remove_user
from tests.catalog.build import NOW

SECRET = "a secret of alice"


@pytest.fixture
def lake(warehouse_uri: str) -> Lakehouse:
    return Lakehouse.open(warehouse_uri)


def _door(lake: Lakehouse, role: Role = "system", user: str = "root") -> Door:
    warehouse = lake.warehouse
    return Door(Principal(user, role), AuditLog(warehouse.state, warehouse.clock, warehouse.new_id))


def _user(user_id: str, role: Role) -> User:
    return User(user_id, role, "password", NOW, NOW)


def _said(lake: Lakehouse) -> list[tuple[str, str, str]]:
    return [(entry.actor_user_id, entry.action, entry.target) for entry in _door(lake).audit.newest()]


@pytest.mark.slow
def test_a_user_s_life_stands_in_the_audit_log_and_no_password_anywhere(lake: Lakehouse) -> None:
    door = _door(lake)
    create_user(lake.warehouse, door, _user("alice", "user"), SECRET)
    changed = change_user(lake.warehouse, door, "alice", UserChange(role="service"), password=SECRET + "2")
    assert changed.role == "service"
    remove_user(lake.warehouse, door, "alice")
    assert sorted(_said(lake)) == sorted(
        [("root", "CREATE_USER", "user:alice"), ("root", "ALTER_USER", "user:alice"), ("root", "DROP_USER", "user:alice")]
    )
    written = [path.read_bytes() for path in Path(lake.warehouse.uri).rglob("*") if path.is_file()]
    assert not [text for text in written if SECRET.encode() in text]


@pytest.mark.parametrize("role", ["anonymous", "user", "service"])
def test_a_denial_changes_nothing_and_is_noted(lake: Lakehouse, role: Role) -> None:
    create_user(lake.warehouse, _door(lake), _user("alice", "user"), SECRET)
    before = lake.warehouse.catalog.read()
    with pytest.raises(PermissionDenied, match="manage users"):
        create_user(lake.warehouse, _door(lake, role, "mallory"), _user("bob", "user"), SECRET)
    with pytest.raises(PermissionDenied):
        change_user(lake.warehouse, _door(lake, role, "mallory"), "alice", UserChange(role="dba"))
    with pytest.raises(PermissionDenied):
        remove_user(lake.warehouse, _door(lake, role, "mallory"), "alice")
    assert lake.warehouse.catalog.read() == before
    assert [said[:2] for said in _said(lake)].count(("mallory", "DENIED")) == 3


def test_a_dba_makes_no_system_user(lake: Lakehouse) -> None:
    with pytest.raises(PermissionDenied):
        create_user(lake.warehouse, _door(lake, "dba", "ada"), _user("boss", "system"), SECRET)
    assert ("ada", "DENIED", "user:boss") in _said(lake)
    with pytest.raises(NotFound):
        find_user(lake.warehouse.catalog.read(), "boss")


def test_a_bad_password_makes_no_user(lake: Lakehouse) -> None:
    with pytest.raises(InvalidArgument):
        create_user(lake.warehouse, _door(lake), _user("alice", "user"), "password1")
    assert lake.warehouse.catalog.read().users == {}


def test_taking_another_s_place_is_noted_whether_it_works_or_not(lake: Lakehouse) -> None:
    create_user(lake.warehouse, _door(lake), _user("ada", "dba"), SECRET)
    remove_user(lake.warehouse, _door(lake), "ada")
    catalog = lake.warehouse.catalog.read()
    with pytest.raises(PermissionDenied, match="role_not_allowed"):  # a dropped administrator is still one
        _door(lake, "service", "svc").execute_as(catalog, "ada")
    taken = _door(lake, "service", "svc").execute_as(catalog, "carl")
    assert (taken.principal.user, taken.principal.role) == ("carl", "user")
    entries = {entry.action: entry for entry in taken.audit.newest()}
    assert entries["EXECUTE_AS_USER"].subject_user_id == "carl"
    denied = entries["EXECUTE_AS_USER_DENIED"]
    assert (denied.actor_user_id, denied.target, denied.subject_user_id) == ("svc", "user:ada", "ada")
    assert "role_not_allowed" in denied.details


def test_what_is_refused_in_another_s_place_names_who_took_it(lake: Lakehouse) -> None:
    door = _door(lake, "service", "svc").execute_as(lake.warehouse.catalog.read(), "carl")
    with pytest.raises(PermissionDenied):
        door.allow("drop", TableOf(TableName("app", "t"), "USER"))
    entry = next(entry for entry in door.audit.newest() if entry.action == "DENIED")
    assert (entry.actor_user_id, entry.subject_user_id, entry.target) == ("svc", "carl", "table:app.t")


def test_the_operator_is_root() -> None:
    assert (OPERATOR.user, OPERATOR.role) == ("root", "system")
