"""A process sleeps right before it stores something that names a user, and wakes behind the user's certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.state.erasures import certificates
from lakewarden.errors import BeingErased
from lakewarden.storage.local import LocalObjects
from lakewarden.tables.client import TableClient
from tests.fixtures.clock import Clock
from tests.fixtures.lakes import NOTES, make_notes, notes

_ANN = "ann-7f3a"


@pytest.fixture
def table(tmp_path: Path, clock: Clock) -> Iterator[TableClient]:
    with Lakehouse.open(str(tmp_path / "w"), clock=clock) as lake:
        made = make_notes(lake)
        for _ in range(2):
            made.write(notes({1: "a"}), user=_ANN)
            lake.flush()
        yield made


def asleep(patch: pytest.MonkeyPatch, verb: str, root: str, meanwhile: Callable[[], object]) -> None:
    """Before the next write below that directory of the state."""
    write = getattr(LocalObjects, verb)

    def slept(store: LocalObjects, key: str, data: bytes) -> None:
        if key.startswith(root):
            patch.setattr(LocalObjects, verb, write)
            meanwhile()
        write(store, key, data)

    patch.setattr(LocalObjects, verb, slept)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("what", ["tag", "pin", "subscribe", "report"])
@pytest.mark.parametrize("tables", [[NOTES], None], ids=["from this table", "from all"])
def test_what_names_the_erased_user_goes_again(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, tables: list[str] | None
) -> None:
    uri, text = str(tmp_path / "w"), f"SELECT * FROM {NOTES}"
    with Lakehouse.open(uri, clock=clock) as lake, Lakehouse.open(uri, clock=clock) as other:
        acts: dict[str, tuple[str, str, Callable[[], object]]] = {
            "tag": ("create", "tags", lambda: lake.tag(NOTES, "kept", user=_ANN, version=0)),
            "pin": ("create", "leases", lambda: lake.table(NOTES).lease(user=_ANN, seconds=60)),
            "subscribe": ("put", "live", lambda: lake.subscribe(text, user=_ANN)),
        }
        if what == "report":
            live = lake.subscribe(text, user=_ANN)
            assert live.poll()
            clock.forward(30)
            acts["report"] = ("put", "live", live.poll)
        verb, root, act = acts[what]
        asleep(monkeypatch, verb, f"{root}/", lambda: other.erase(_ANN, tables))
        with pytest.raises(BeingErased):
            act()
        assert [each.result for each in certificates(other.warehouse.state)] == ["complete"]
    named = [path for path in (tmp_path / "w" / "_lakewarden" / root).rglob("*") if path.is_file()]
    assert [path for path in named if _ANN.encode() in path.read_bytes()] == []
