"""A sync that fails: nothing is acknowledged behind it, and nothing is removed for its sake."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.base.clock import random_id, system_clock
from lakewarden.base.setting_sections import LogSettings
from lakewarden.catalog.changes.objects import add_namespace
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import NotDurable, StorageUnavailable
from lakewarden.log.drain import LogScope
from lakewarden.log.log_reader import LogReader
from lakewarden.log.objects import names
from lakewarden.log.objects.clean import clean
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.cuts.closing import close_user, leave_out, remove_log
from lakewarden.log.objects.cuts.next_cut import advance
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.view import make_durable
from lakewarden.storage.local import LocalObjects
from tests.log.build import LOG, NOTES, Store, notes, pending_ids, settle_all, view_of, writer

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@contextmanager
def failing(wanted: Callable[[Path], bool]) -> Iterator[None]:
    """The first sync of a path that is wanted fails, as the kernel has it: those that follow succeed."""
    sync, failed = os.fsync, [False]

    def fail_once(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if wanted(path) and not failed[0]:
            failed[0] = True
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fail_once)
        yield
    assert failed[0], "no such sync"


def directory(name: str) -> Callable[[Path], bool]:
    return lambda path: path.is_dir() and path.name == name


def a_file(path: Path) -> bool:
    return not path.is_dir()


@pytest.mark.parametrize("wanted", [directory("segments"), a_file], ids=["directory", "file"])
def test_an_append_behind_a_failed_sync_is_not_acknowledged(store: Store, wanted: Callable[[Path], bool]) -> None:
    log = writer(store)
    log.append(notes("u", 1))
    with failing(wanted), pytest.raises(NotDurable, match=r"may or may not have been taken .* the disk reported an error"):
        log.append(notes("u", 2))
    log.append(notes("u", 3))
    assert pending_ids(store, "u")[-1] == 3


def test_a_directory_that_cannot_be_made_durable_gets_nothing(store: Store, tmp_path: Path) -> None:
    with failing(directory(tmp_path.name)), pytest.raises(NotDurable):
        writer(store).append(notes("u", 1))
    assert pending_ids(store, "u") == []


def test_what_is_found_after_a_lost_answer_is_made_durable_first(store: Store) -> None:
    def lose(call: str, _key: str) -> None:
        if call == "create":
            store.after = lambda call, key: None
            raise StorageUnavailable("no answer")

    log = writer(store)
    log.append(notes("u", 1))
    store.after = lose
    looked: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "confirm", looked.append)
        log.append(notes("u", 2))
    assert looked == [names.segment_key(LOG, 1)]


@pytest.mark.parametrize("wanted", [directory("cuts"), a_file], ids=["directory", "file"])
def test_a_cut_that_is_not_durable_removes_nothing(store: Store, wanted: Callable[[Path], bool]) -> None:
    log = writer(store)
    for n in range(2):
        log.append(notes("u", n))
        if n == 0:
            settle_all(store)
    with failing(wanted), pytest.raises(NotDurable):
        settle_all(store)
    assert [each.key for each in store.list(names.segments(LOG))] == [names.segment_key(LOG, 1)]


def test_others_cuts_are_made_durable_before_anything_goes(store: Store) -> None:
    writer(store).append(notes("u", 1))
    view = view_of(store)
    store.before = stop_at_delete
    with pytest.raises(ZeroDivisionError):
        settle(store, view, {"u": view.end}, CutTerms(LogSettings(), random_id))
    store.before = lambda call, key: None
    with failing(directory("cuts")), pytest.raises(NotDurable):
        clean(store, LOG)
    assert len(store.list(names.segments(LOG))) == 1
    clean(store, LOG)
    assert store.list(names.segments(LOG)) == []


def stop_at_delete(call: str, _key: str) -> None:
    if call == "delete":
        raise ZeroDivisionError


def test_an_erasure_stands_on_durable_cuts(store: Store) -> None:
    writer(store).append(notes("u", 1))
    with failing(directory("cuts")), pytest.raises(NotDurable):
        close_user(store, LOG, "U")
    assert newest_cut(store, LOG).closed == ("U",)
    with failing(directory("cuts")), pytest.raises(NotDurable):
        close_user(store, LOG, "U")
    with failing(directory("cuts")), pytest.raises(NotDurable):
        leave_out(store, LOG, "u", "U", CutTerms(LogSettings(), random_id), now=system_clock())
    assert advance(store, LOG, lambda cut: None).erased == {"U": 8}


def test_a_drop_stands_on_a_durable_seal(store: Store) -> None:
    writer(store).append(notes("u", 1))
    for _ in range(2):
        with failing(directory("cuts")), pytest.raises(NotDurable):
            remove_log(store, LOG)
        assert len(store.list(names.segments(LOG))) == 1


def test_what_is_seen_is_made_durable_before_it_is_committed_elsewhere(store: Store) -> None:
    writer(store).append(notes("u", 1))
    view = view_of(store)
    with failing(directory("segments")), pytest.raises(NotDurable):
        make_durable(store, view)
    with failing(directory("segments")), pytest.raises(NotDurable):
        LogScope.of(LogReader(store, LOG), view, "u", (NOTES,)).again()
    settle_all(store)
    make_durable(store, view)  # settled meanwhile: its cut is durable
    make_durable(store, view_of(store))


def test_a_change_of_the_catalog_behind_a_failed_sync_is_not_done(tmp_path: Path) -> None:
    store = LocalObjects(str(tmp_path))
    catalog = CatalogStore(store, system_clock)
    catalog.change(lambda before: before)
    catalog.change(lambda before: add_namespace(before, "one", NOON))
    with failing(directory("catalog")), pytest.raises(NotDurable):
        catalog.change(lambda before: add_namespace(before, "two", NOON))
