"""What a user gets in hand says in a trace or a notebook where it stands, and nothing that only some may read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import lakewarden
from lakewarden import Lakehouse
from lakewarden.catalog.changes.users import add_user
from lakewarden.catalog.locks import CatalogLock
from lakewarden.catalog.model import User
from lakewarden.catalog.store import CatalogStore
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.warehouse import Warehouse
from tests.fixtures.lakes import make_notes, notes, strong

_USER, _VALUE, _HASH = "user-in-hiding", "value-in-hiding", "hash-in-hiding"

_STORES = (LocalObjects, CatalogStore, Warehouse)
_SECRET = re.compile(r"^    (\w*(?:secret|password|password_hash|auth_data|_token)): *(?!int)(?!.*repr=False).*$", re.MULTILINE)
_OWN_REPR = re.compile(r"^    (__repr__ = |def __repr__)", re.MULTILINE)


def test_what_a_user_gets_in_hand_shows_no_key_no_user_and_no_value(tmp_path: Path) -> None:
    with Lakehouse.open(str(tmp_path / "w")) as lake:
        table = make_notes(lake)
        now = datetime(2026, 11, 28, tzinfo=UTC)
        someone = User(_USER, "user", "password", now, now, password_hash=_HASH)
        lake.warehouse.catalog.change(partial(add_user, user=someone, by="dba"))
        table.write(notes({1: _VALUE}), user=_USER)
        lake.flush()
        table.write(notes({2: _VALUE}), user=_USER)
        assert len(strong(table, _USER)) == 2
        hidden = (_USER, _VALUE, _HASH, repr(lake.warehouse.erasures._key))
        in_hand = [lake, table, table.table, lake.session(user=_USER), lake.k3, lake.warehouse.locks.create()]
        found = dict(_held([*in_hand, lake.warehouse.catalog.read()]))
        assert {Lakehouse, Warehouse, CatalogStore, CatalogLock} <= {type(each) for each in found.values()}
        shown = {place: repr(each) for place, each in found.items() if any(text in repr(each) for text in hidden)}
        assert shown == {}


def _held(things: list[object]) -> Iterator[tuple[str, object]]:
    """The things, all that they hold by a public name, and whatever else they reach that holds a store."""
    seen: set[int] = set()

    def walk(place: str, thing: object, by_public_names: bool) -> Iterator[tuple[str, object]]:
        if id(thing) in seen or not type(thing).__module__.startswith("lakewarden."):
            return
        seen.add(id(thing))
        held = vars(thing) if hasattr(thing, "__dict__") else {}
        if by_public_names or any(isinstance(each, _STORES) for each in held.values()):
            yield place, thing
        for name, each in held.items():
            yield from walk(f"{place}.{name}", each, by_public_names and not name.startswith("_"))

    for thing in things:
        yield from walk(type(thing).__name__, thing, by_public_names=True)


def test_a_secret_among_the_fields_of_a_class_stays_out_of_its_repr() -> None:
    package = Path(lakewarden.__file__).parent
    classes = [part for path in package.rglob("*.py") for part in re.split(r"^class ", path.read_text(), flags=re.MULTILINE)[1:]]
    assert len(classes) > 1000
    open_ones = {one.partition("(")[0].partition(":")[0]: found for one in classes if (found := _SECRET.findall(one))}
    covered = {one.partition("(")[0].partition(":")[0] for one in classes if _OWN_REPR.search(one)}
    assert {name: fields for name, fields in open_ones.items() if name not in covered} == {}
