"""Every file of the corpus, through the public interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.sql.context import Services
from tests.sql.corpus import CORPUS, Sessions, agrees, cases, outcome

FILES = sorted(CORPUS.glob("*.txt"))


_SLOW = {"access", "facts", "outside"}
"""Passwords are hashed slowly on purpose; the others are long."""


def _marks(path: Path) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if path.stem in _SLOW else []


@pytest.fixture(params=["in this process", pytest.param("in workers", marks=[pytest.mark.slow, pytest.mark.night])])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the operator's queries run; those of others run in workers, always."""
    if request.param == "in workers":
        monkeypatch.setattr(Services, "trusts", lambda *_: False)


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem, marks=_marks(path)) for path in FILES])
def test_the_outcomes_are_those_of_the_file(path: Path, warehouse_uri: str) -> None:
    wrong = []
    with Lakehouse.open(warehouse_uri) as lake:
        sessions = Sessions(lake)
        for case in cases(path):
            told, rows = outcome(sessions, case)
            if not agrees(case, told, rows):
                wrong.append("\n".join([f"{path.name}:{case.line}: {case.statement}", f"  => {told}", *rows]))
    assert not wrong, "\n".join(wrong)


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert sum(1 for path in FILES for _ in cases(path)) >= 300
