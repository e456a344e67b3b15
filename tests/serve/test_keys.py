"""Keys that sign tokens: of each day one, which verifies over the next midnight, on whichever server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.connection import Location
from lakewarden.serve.tokens import SigningKeys
from lakewarden.storage.objects import ObjectStore
from lakewarden.storage.open import open_store

MIDNIGHT = datetime(2026, 11, 23, tzinfo=UTC)
BEFORE = MIDNIGHT - timedelta(seconds=1)


@pytest.fixture
def store() -> ObjectStore:
    return open_store(Location(f"memory://{random_id()}-keys"))


def test_all_servers_sign_with_the_key_of_the_day(store: ObjectStore) -> None:
    assert SigningKeys(store).signing(MIDNIGHT) == SigningKeys(store).signing(MIDNIGHT + timedelta(hours=23))
    assert len(SigningKeys(store).signing(MIDNIGHT).secret) == 32


@pytest.mark.parametrize("later", [timedelta(seconds=1), timedelta(hours=24)])
def test_a_key_verifies_on_the_next_day_too(store: ObjectStore, later: timedelta) -> None:
    one = SigningKeys(store)
    key = one.signing(BEFORE)
    made = SigningKeys(store).signing(BEFORE + later)
    assert made.id != key.id
    for server in (one, SigningKeys(store)):
        assert server.verifying(key.id, BEFORE + later) == key
        assert server.verifying(made.id, BEFORE + later) == made


def test_an_older_key_is_removed_and_verifies_nothing(store: ObjectStore) -> None:
    key = SigningKeys(store).signing(BEFORE)
    now = BEFORE + timedelta(days=2)
    assert SigningKeys(store).verifying(key.id, now) is None
    SigningKeys(store).signing(now)
    assert [name.rpartition("/")[2] for name in store.keys("serve/keys")] == [SigningKeys(store).signing(now).id]
    assert SigningKeys(store).verifying(key.id, BEFORE) is None, "it is gone"


@pytest.mark.parametrize("id_", ["", "0", "-1", "../keys", "99999999"])
def test_an_id_that_no_key_has_verifies_nothing(store: ObjectStore, id_: str) -> None:
    SigningKeys(store).signing(MIDNIGHT)
    assert SigningKeys(store).verifying(id_, MIDNIGHT) is None
