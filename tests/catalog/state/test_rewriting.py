"""Changes of what says what happened: two at once, late ones, and those that were interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakewarden.catalog.state.records import content, empty_replaced, newest, rewrite
from lakewarden.storage.local import LocalObjects


class _Died(BaseException):
    pass


@pytest.fixture
def store(tmp_path: Path) -> LocalObjects:
    made = LocalObjects(str(tmp_path / "state"))
    made.create("audit/1", b"ann and bob")
    return made


def without(name: bytes, meanwhile: Callable[[], None] = lambda: None) -> Callable[[bytes], bytes]:
    """A change that another process comes between with, once."""
    acts = [meanwhile]

    def change(data: bytes) -> bytes:
        if acts:
            acts.pop()()
        return data.replace(name, b"#")

    return change


def everything(store: LocalObjects) -> list[bytes]:
    return [data for key in store.keys("audit") if (data := store.get(key))]


def test_two_at_once_change_what_the_other_made(store: LocalObjects) -> None:
    rewrite(store, "audit/1", without(b"bob", lambda: rewrite(store, "audit/1", without(b"ann"))))
    assert everything(store) == [b"# and #"]
    (kept,) = newest(store.list("audit"))
    assert content(store, kept.key) == content(store, "audit/1") == b"# and #"


def test_what_is_not_concerned_stays_one_object(store: LocalObjects) -> None:
    rewrite(store, "audit/1", without(b"eve"))
    assert store.keys("audit") == ["audit/1"]


def test_a_change_of_what_was_removed_meanwhile_leaves_nothing(store: LocalObjects) -> None:
    rewrite(store, "audit/1", without(b"bob", lambda: store.delete(["audit/1"])))
    assert everything(store) == []
    assert newest(store.list("audit")) == []


def test_one_that_was_interrupted_is_ended_by_the_next(store: LocalObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise _Died

    with monkeypatch.context() as patch:
        patch.setattr(LocalObjects, "put", dies)
        with pytest.raises(_Died):
            rewrite(store, "audit/1", without(b"bob"))
    assert len(everything(store)) == 2
    assert [content(store, each.key) for each in newest(store.list("audit"))] == [b"ann and #"]
    empty_replaced(store, store.list("audit"))
    assert everything(store) == [b"ann and #"]
