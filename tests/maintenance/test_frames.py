"""How long the way from a call to its plan is, and how often it reads the catalog."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lakewarden
from lakewarden import Lakehouse
from lakewarden.catalog.store import CatalogStore
from tests.fixtures.lakes import NOTES, lake_fixture, make_notes, notes

pytestmark = pytest.mark.disk

_PACKAGE = f"{Path(lakewarden.__file__).parent}{os.sep}"

lake = lake_fixture(make_notes)


def _own(frame: FrameType | None) -> list[str]:
    found = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE) and not frame.f_code.co_filename.endswith("base/threads.py"):
            found.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return found


@contextmanager
def _stacks(of: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The own frames at each call of a function, those that handed the work to a thread among them, and not the thread's."""
    found: list[list[str]] = []
    handed: list[str] = []
    submit = ThreadPoolExecutor.submit

    def submitted(self: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **rest: Any) -> Any:
        handed[:] = _own(sys._getframe())
        return submit(self, work, *args, **rest)

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == of:
            found.append(_own(frame) + handed)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submitted)
    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _reads(call: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the call reads the catalog."""
    seen: list[None] = []
    read = CatalogStore.read

    def counted(self: CatalogStore) -> Any:
        seen.append(None)
        return read(self)

    with monkeypatch.context() as patched:
        patched.setattr(CatalogStore, "read", counted)
        call()
    return len(seen)


def test_a_restore_is_few_frames_from_its_plan_and_reads_the_catalog_once(
    lake: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does its apply, one that flushes first too; a run without a plan reads it once."""
    for text in ("first", "second"):
        lake.table(NOTES).write(notes({1: text}), user="ann")
        lake.flush()
    with _stacks("plan_restore", monkeypatch) as stacks:
        assert _reads(lambda: lake.restore(NOTES, user="ann", version=0), monkeypatch) == 1
    (stack,) = stacks
    assert len(stack) <= 9, "\n".join(stack)
    (report,) = lake.restore(NOTES, user="ann", version=0)
    assert _reads(lambda: lake.apply(report.plan_id), monkeypatch) == 1
    assert lake.table(NOTES).history(user="ann")[0].version == 2
    lake.table(NOTES).write(notes({2: "third"}), user="ann")
    (report,) = lake.restore(NOTES, user="ann", version=1)
    assert _reads(lambda: lake.apply(report.plan_id), monkeypatch) == 1
    assert lake.table(NOTES).history(user="ann")[0].version == 4
    assert _reads(lambda: lake.restore(NOTES, user="ann", version=0, dry_run=False), monkeypatch) == 1
