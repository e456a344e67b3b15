from __future__ import annotations

from datetime import timedelta

import argon2
import pytest

from lakewarden.catalog.changes.objects import drop_storage, first_catalog
from lakewarden.catalog.changes.users import UserChange, add_user, alter_user, drop_user, find_user, role_of
from lakewarden.catalog.model import Catalog, User
from lakewarden.catalog.names import Role
from lakewarden.catalog.passwords import check_password, hash_password, is_password
from lakewarden.catalog.store import CatalogVersion, decode, encode
from lakewarden.errors import AlreadyExists, InUse, InvalidArgument, NotFound, PermissionDenied
from tests.catalog.build import NOW, storage

LATER = NOW + timedelta(hours=1)


def _with(role: Role = "user", **fields: str) -> Catalog:
    user = User("alice", role, "internal", NOW, NOW, **fields)  # type: ignore[arg-type]
    return add_user(first_catalog(), user, "system")


def test_a_user_is_kept_with_the_catalog_and_comes_back_as_it_was() -> None:
    catalog = add_user(
        first_catalog(), User("bob@x", "service", "password", NOW, NOW, password_hash="$argon2id$", email="b@x.org"), "dba"
    )
    assert decode(encode(CatalogVersion(catalog, (), NOW)), "test").catalog == catalog
    assert "argon2id" not in repr(catalog)


def test_altering_changes_what_is_given() -> None:
    catalog = alter_user(_with(email="a@x.org"), "alice", UserChange(role="service"), "dba", LATER)
    alice = find_user(catalog, "alice")
    assert (alice.role, alice.email, alice.created_at, alice.updated_at) == ("service", "a@x.org", NOW, LATER)


def test_dropping_is_soft_and_the_name_stays_taken() -> None:
    catalog = drop_user(_with("dba"), "alice", "dba", LATER)
    assert catalog.users["alice"].deleted_at == LATER
    assert role_of(catalog, "alice") == "dba"
    with pytest.raises(NotFound, match="alice"):
        find_user(catalog, "alice")
    with pytest.raises(NotFound):
        drop_user(catalog, "alice", "dba", LATER)
    with pytest.raises(AlreadyExists, match="was dropped"):
        add_user(catalog, User("alice", "user", "internal", NOW, NOW), "dba")


@pytest.mark.parametrize("act", ["create", "promote", "alter", "drop"])
def test_only_system_reaches_users_of_the_role_system(act: str) -> None:
    def attempt(by: Role) -> None:
        if act == "create":
            add_user(first_catalog(), User("root", "system", "internal", NOW, NOW), by)
        elif act == "promote":
            alter_user(_with(), "alice", UserChange(role="system"), by, NOW)
        elif act == "alter":
            alter_user(_with("system"), "alice", UserChange(email="e@x.org"), by, NOW)
        else:
            drop_user(_with("system"), "alice", by, NOW)

    attempt("system")
    with pytest.raises(PermissionDenied, match="system may"):
        attempt("dba")


def test_a_storage_of_one_s_own_is_there_and_stays() -> None:
    catalog = _with()
    with pytest.raises(NotFound, match="s3-eu"):
        alter_user(catalog, "alice", UserChange(storage_mode="region", storage_id="s3-eu"), "dba", NOW)
    catalog = Catalog(storages={**catalog.storages, "s3-eu": storage("s3-eu", "/eu")}, users=catalog.users)
    catalog = alter_user(catalog, "alice", UserChange(storage_mode="region", storage_id="s3-eu"), "dba", NOW)
    with pytest.raises(InUse, match="alice"):
        drop_storage(catalog, "s3-eu")
    cleared = alter_user(catalog, "alice", UserChange(clear_storage=True), "dba", NOW)
    assert "s3-eu" not in drop_storage(cleared, "s3-eu").storages


@pytest.mark.parametrize("email", ["", "alice", "a@", "@b", "a b@c"])
def test_an_email_has_a_form(email: str) -> None:
    with pytest.raises(InvalidArgument, match="email"):
        _with(email=email)


def test_a_password_s_user_has_one_and_others_have_none() -> None:
    with pytest.raises(InvalidArgument):
        add_user(first_catalog(), User("x", "user", "password", NOW, NOW), "dba")
    with pytest.raises(InvalidArgument):
        add_user(first_catalog(), User("x", "user", "oauth", NOW, NOW, password_hash="h"), "dba")
    with pytest.raises(InvalidArgument, match="anonymous"):
        add_user(first_catalog(), User("x", "anonymous", "internal", NOW, NOW), "dba")
    with pytest.raises(InvalidArgument, match="without a password"):
        alter_user(_with(), "alice", UserChange(password_hash="h"), "dba", NOW)


@pytest.mark.parametrize("password", ["", "short12", "x" * 73, "password", "PassWord123", "12345678"])
def test_a_bad_password_is_refused_without_being_repeated(password: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        check_password(password)
    assert not password or password not in refusal.value.message.split()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("password", ["correct horse", "x" * 8 + "1", "ü" * 72])
def test_a_password_is_known_by_its_hash_alone(
    password: str, slow_hasher: type[argon2.PasswordHasher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(argon2, "PasswordHasher", slow_hasher)
    hashed = hash_password(check_password(password))
    assert hashed.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert password not in hashed
    assert is_password(password, hashed)
    assert not is_password(password + "x", hashed)
