"""Kills a process at one of its changes: from then on nothing that it does has an effect, as if the process were gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lakewarden.catalog.state.processes import Beat
from lakewarden.delta.commit_log import publish
from lakewarden.storage.local import LocalObjects
from tests.maintenance.steps import Died

_CHANGES = ((LocalObjects, "create"), (LocalObjects, "put"), (LocalObjects, "write"), (LocalObjects, "replace"))


def before_changes(patch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Something that happens before each change of a store: of objects, data files, names of commits, deletions."""

    def acting(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*given: object, **named: object) -> object:
            act()
            return change(*given, **named)

        return changed

    for owner, name in (*_CHANGES, (LocalObjects, "delete"), (publish, "_named")):
        patch.setattr(owner, name, acting(getattr(owner, name)))


def dies_before_change(patch: pytest.MonkeyPatch, number: int) -> None:
    """Every change of a store from this one on raises `Died`; beats of the process go on."""
    left = number

    def die() -> None:
        nonlocal left
        if isinstance(threading.current_thread(), Beat):  # of the Spark driver of this process, which does not die
            return
        left -= 1
        if left < 0:
            raise Died(number)

    before_changes(patch, die)
