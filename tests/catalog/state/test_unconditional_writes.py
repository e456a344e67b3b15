"""Every object that is overwritten without a condition, and why that is sound: of two processes that read, change and write the
same object, one brings back what the other took out. What is changed from its own contents goes by `records.rewrite`, or by
objects that are created only if absent."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden.catalog.state import records

_PACKAGE = Path(records.__file__).parents[2]

_OWN = "its name has an id of its own: no other process writes it"
_MARK = "it is a mark: whoever writes it writes the same"
_LATEST = "it is made of what the writer saw itself, and of nothing that it held before: the latest stands"
_EMPTIED = "what replaces it is there already: it is emptied by whoever comes"

_SOUND = {
    ("catalog/state/erasures.py", "_put"): _OWN,
    ("catalog/state/erasures.py", "keep_request"): _LATEST,
    ("catalog/state/erasures.py", "remember"): _LATEST,
    (
        "catalog/state/fleet_days.py",
        "keep_day",
    ): "it names no user, and jobs that one of two writers missed are counted by the next",
    ("catalog/state/fleet_days.py", "keep_schedules"): _LATEST,
    ("catalog/state/fleet_days.py", "keep_survey_sums"): _LATEST,
    ("catalog/state/job_log.py", "_over"): _MARK,
    ("catalog/state/job_log.py", "runnable"): _MARK,
    ("catalog/state/processes.py", "_put"): _OWN,
    ("catalog/state/processes.py", "ping"): _OWN,
    ("catalog/state/records.py", "empty_replaced"): _EMPTIED,
    ("catalog/state/records.py", "rewrite"): _EMPTIED,
    ("delta/commit_log/checkpoint.py", "_write"): "it is made of the commits of its version: whoever writes it writes the same",
    ("delta/lifecycle/fence.py", "_clear"): "below a fence, under its lock: no process writes these commits again",
    ("delta/manifest.py", "_write"): "it is made of the newest version, and made again where a newer one is there behind it",
    ("maintenance/admin/upgrade.py", "_write_format"): "the same for all who upgrade to this release",
    ("maintenance/plans/rounds.py", "note_reached"): "one of two rounds is repeated; it holds keyed hashes alone",
    ("maintenance/plans/store.py", "begin"): _MARK,
    ("maintenance/plans/store.py", "finish"): "it names a job and no user",
    ("maintenance/repair/scope.py", "_copied"): _OWN,
    ("maintenance/restore/files.py", "copied_apart"): _OWN,
    ("maintenance/vacuum/sweep.py", "note_fences"): _OWN,
    ("serve/idempotency.py", "_now"): _MARK,
    ("storage/owner.py", "claim"): "the one overwrite of a marker, by an upgrade (docs/decisions/0020-floors-and-identity.md)",
}

_MAY_OVERWRITE = re.compile(r"\.(put|replace|write)\(")
_STORES = re.compile(r"(store|state|objects|storage|place)$")
"""How variables of stores are called."""


def _written(tree: ast.AST) -> Iterator[str]:
    """Functions that overwrite an object of a store."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and any(map(_overwrites, ast.walk(function))):
            yield function.name


def _overwrites(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="put" | "replace" | "write")):
            return ast.unparse(value) != "obstore" and _STORES.search(ast.unparse(value)) is not None
    return False


@pytest.mark.slow
def test_whatever_is_overwritten_has_its_reason() -> None:
    found = {
        (path.relative_to(_PACKAGE).as_posix(), name)
        for path in _PACKAGE.rglob("*.py")
        if _MAY_OVERWRITE.search(text := path.read_text())
        for name in _written(ast.parse(text))
    }
    assert found == _SOUND.keys()
