"""Several real processes on one real directory."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from lakewarden.base.clock import random_id
from lakewarden.base.setting_sections import LogSettings
from lakewarden.log.objects.cuts.settle import CutTerms, settle
from lakewarden.log.objects.view import rows_of
from lakewarden.storage.local import LocalObjects
from tests.log.build import NOTES, ids_of, notes, view_of, writer

_WRITERS = 4
_APPENDS = 40


def append(root: str, process: int) -> list[int]:
    """Ids of the rows, in the order of their `_seq`."""
    mine = writer(LocalObjects(root))
    ids = [process * 1000 + n for n in range(_APPENDS)]
    seqs = [mine.append(notes("shared", each)).last_seq for each in ids]
    assert seqs == sorted(seqs)
    return ids


def flush(root: str) -> list[int]:
    """Ids that one flush takes out of the log."""
    store = LocalObjects(root)
    view = view_of(store)
    if "shared" not in view.pending:
        return []
    ids = ids_of(rows_of(store, view.pending["shared"], (NOTES,)))
    settle(store, view, {"shared": view.end}, CutTerms(LogSettings(), random_id))
    return ids


@pytest.mark.slow
def test_four_processes_append_while_a_fifth_flushes(tmp_path: Path) -> None:
    root = str(tmp_path)
    flushed: list[int] = []
    with ProcessPoolExecutor(_WRITERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        writers = [pool.submit(append, root, process) for process in range(_WRITERS)]
        while not all(each.done() for each in writers):
            flushed += flush(root)
    appended = [each.result() for each in writers]
    flushed += flush(root)
    assert len(flushed) == len(set(flushed)) == _WRITERS * _APPENDS
    for process, ids in enumerate(appended):
        assert [each for each in flushed if each // 1000 == process] == ids
