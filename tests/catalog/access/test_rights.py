"""Every cell of the matrices, both ways, against the tables of *Table Types* typed here once more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewarden.base.scope import TableName
from lakewarden.catalog.access import (
    ACCESS_LEVELS,
    ALIASES,
    CAPABILITIES,
    ROLES,
    WAREHOUSE,
    Act,
    Capability,
    Principal,
    TableKind,
    TableOf,
    WarehouseAct,
    allow,
    impersonate,
    may,
    parse_role,
    require,
)
from lakewarden.catalog.names import AccessLevel, Role
from lakewarden.catalog.options import OPTIONS
from lakewarden.errors import InvalidArgument, PermissionDenied, Unsupported

_COLUMNS: tuple[Role, ...] = ("anonymous", "user", "service", "dba", "system")

# act | type | access level | anonymous user service dba system
_TABLE_RIGHTS = """
read   USER   -          No Yes Yes Yes Yes
write  USER   -          No Yes Yes Yes Yes
create USER   -          No No  Yes Yes Yes
alter  USER   -          No No  Yes Yes Yes
drop   USER   -          No No  No  Yes Yes
read   STREAM -          No Yes Yes Yes Yes
write  STREAM -          No Yes Yes Yes Yes
create STREAM -          No No  Yes Yes Yes
alter  STREAM -          No No  Yes Yes Yes
drop   STREAM -          No No  No  Yes Yes
create SHARED -          No No  Yes Yes Yes
alter  SHARED -          No No  Yes Yes Yes
drop   SHARED -          No No  No  Yes Yes
create SYSTEM -          No No  No  No  No
alter  SYSTEM -          No No  No  No  No
drop   SYSTEM -          No No  No  No  No
move   USER   -          No No  No  Yes Yes
move   STREAM -          No No  No  Yes Yes
move   SHARED -          No No  No  Yes Yes
move   SYSTEM -          No No  No  No  No
read   SYSTEM -          No No  No  Yes Yes
write  SYSTEM -          No No  No  No  No
read   SHARED PUBLIC     Yes Yes Yes Yes Yes
write  SHARED PUBLIC     No  No  Yes Yes Yes
read   SHARED PRIVATE    No  No  Yes Yes Yes
write  SHARED PRIVATE    No  No  Yes Yes Yes
read   SHARED RESTRICTED No  No  Yes Yes Yes
write  SHARED RESTRICTED No  No  Yes Yes Yes
read   SHARED DBA        No  No  No  Yes Yes
write  SHARED DBA        No  No  No  Yes Yes
"""

_WAREHOUSE_RIGHTS = """
create_views          No No  No  Yes Yes
manage_namespaces     No No  No  Yes Yes
manage_storages       No No  No  Yes Yes
manage_settings       No No  No  Yes Yes
check_storages        No No  No  Yes Yes
kill_jobs             No No  No  Yes Yes
manage_users          No No  No  Yes Yes
back_up_the_database  No No  No  Yes Yes
export_their_own_data No Yes Yes Yes Yes
look_at_what_exists   No Yes Yes Yes Yes
"""

# who | target: user service dba system
_IMPERSONATION = """
anonymous No  No  No  No
user      No  No  No  No
service   Yes Yes No  No
dba       Yes Yes Yes No
system    Yes Yes Yes Yes
"""

_CAPABILITIES = """
made_by_DDL      Yes Yes Yes No
a_scope_per_user Yes No  Yes No
cold_tier        Yes Yes No  No
files            Yes Yes No  No
subscriptions    Yes Yes Yes No
"""

_OPTIONS = """
TYPE                    taken taken taken       refused
STORAGE_ID              taken taken ignored     refused
USE_USER_STORAGE        taken refused refused   refused
FLUSH_POLICY            taken taken ignored     refused
DELETED_RETENTION_HOURS taken taken ignored     refused
TTL_SECONDS             refused refused required refused
ACCESS_LEVEL            refused taken refused   refused
"""


def _lines(text: str) -> Iterator[list[str]]:
    return (line.split() for line in text.strip().splitlines())


def _rows() -> Iterator[tuple[str, str, str, list[str]]]:
    """Of an act on a table of some type and access level, what each role may."""
    for act, kind, level, *cells in _lines(_TABLE_RIGHTS):
        for one in ("PUBLIC", "PRIVATE", "RESTRICTED", "DBA") if level == "-" else (level,):
            yield act, kind, one, cells
    for act in ("flush", "compact", "evict", "maintain every scope of"):
        for kind in ("USER", "SHARED", "STREAM"):
            yield act, kind, "PRIVATE", ["No", "No", "Yes", "Yes", "Yes"]


@pytest.mark.parametrize(("act", "kind", "level", "cells"), list(_rows()))
def test_each_cell_of_the_table_matrices(act: Act, kind: TableKind, level: AccessLevel, cells: list[str]) -> None:
    table = TableOf(TableName("app", "t"), kind, level)
    for role, cell in zip(_COLUMNS, cells, strict=True):
        principal = Principal("u", role)
        assert may(principal, act, table) is (cell == "Yes"), role
        if cell == "Yes":
            allow(principal, act, table)
            continue
        with pytest.raises(PermissionDenied, match=rf"role '{role}' may not {act} {kind} table app\.t.*; .* may"):
            allow(principal, act, table)


@pytest.mark.parametrize("line", list(_lines(_WAREHOUSE_RIGHTS)), ids=lambda line: line[0])
def test_each_cell_of_the_other_acts(line: list[str]) -> None:
    act: WarehouseAct = line[0].replace("_", " ")  # type: ignore[assignment]
    for role, cell in zip(ROLES, line[1:], strict=True):
        if cell == "Yes":
            allow(Principal("u", role), act)
        else:
            with pytest.raises(PermissionDenied, match=act):
                allow(Principal("u", role), act)


def test_no_act_is_left_out_of_the_typed_tables() -> None:
    assert {line[0].replace("_", " ") for line in _lines(_WAREHOUSE_RIGHTS)} == set(WAREHOUSE)
    assert {line[0].replace("_", " ") for line in _lines(_CAPABILITIES)} <= set(CAPABILITIES)


@pytest.mark.parametrize("line", list(_lines(_IMPERSONATION)), ids=lambda line: line[0])
def test_each_cell_of_the_impersonation_matrix(line: list[str]) -> None:
    actor = Principal("me", parse_role(line[0]))
    for target, cell in zip(("user", "service", "dba", "system"), line[1:], strict=True):
        if cell == "Yes":
            taken = impersonate(actor, "them", parse_role(target))
            assert (taken.user, taken.role, taken.actor) == ("them", target, actor)
        else:
            with pytest.raises(PermissionDenied, match="role_not_allowed"):
                impersonate(actor, "them", parse_role(target))


@pytest.mark.parametrize("role", ROLES)
def test_one_may_take_one_s_own_place_and_keeps_one_s_role(role: str) -> None:
    me = Principal("me", role)  # type: ignore[arg-type]
    if role == "anonymous":
        with pytest.raises(PermissionDenied):
            impersonate(me, "me", None)
    else:
        assert impersonate(me, "me", "user").role == role


def test_an_unknown_user_counts_as_an_ordinary_one() -> None:
    assert impersonate(Principal("svc", "service"), "nobody-knows-me", None).role == "user"


def test_shared_tables_are_refused_to_those_in_another_s_place_whatever_their_role() -> None:
    stands_in = impersonate(Principal("root", "system"), "alice", "user")
    for level in ACCESS_LEVELS:
        with pytest.raises(Unsupported, match="SHARED"):
            allow(stands_in, "read", TableOf(TableName("app", "t"), "SHARED", level))
    with pytest.raises(PermissionDenied, match="role_not_allowed"):
        impersonate(Principal("bob", "user"), "alice", "user")  # asked before any table is looked at
    allow(stands_in, "read", TableOf(TableName("app", "t"), "USER"))


@pytest.mark.parametrize("line", list(_lines(_CAPABILITIES)), ids=lambda line: line[0])
def test_each_cell_of_the_capability_matrix(line: list[str]) -> None:
    capability: Capability = line[0].replace("_", " ")  # type: ignore[assignment]
    for kind, cell in zip(("USER", "SHARED", "STREAM", "SYSTEM"), line[1:], strict=True):
        table = TableOf(TableName("app", "t"), kind)  # type: ignore[arg-type]
        if cell == "Yes":
            require(table, capability, "that")
        else:
            with pytest.raises(Unsupported, match=f"app.t is a {kind} table"):
                require(table, capability, "that")


@pytest.mark.parametrize("line", list(_lines(_OPTIONS)), ids=lambda line: line[0])
def test_each_cell_of_the_option_table(line: list[str]) -> None:
    taking = OPTIONS[line[0]].takes
    assert [taking[kind] for kind in ("USER", "SHARED", "STREAM", "SYSTEM")] == line[1:]


@pytest.mark.parametrize(("text", "role"), [*ALIASES.items(), *((role.upper(), role) for role in ROLES), (" Admin ", "dba")])
def test_roles_have_other_names(text: str, role: str) -> None:
    assert parse_role(text) == role


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="owner"):
        parse_role("owner")
