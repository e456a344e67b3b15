"""The code location as Dagster loads it: fresh, over a warehouse that the environment names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import dagster as dg
import pytest

from resources.lakehouse import VARIABLE
from tests.fixtures.chat import make_chat

Load = Callable[[str], dg.Definitions]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads orchestration/definitions.py anew; what it builds depends on the warehouse of that moment."""

    def loaded(uri: str) -> dg.Definitions:
        monkeypatch.setenv(VARIABLE, uri)
        monkeypatch.delitem(sys.modules, "orchestration.definitions", raising=False)
        defs = importlib.import_module("orchestration.definitions").defs
        assert isinstance(defs, dg.Definitions)
        return defs

    return loaded


@pytest.fixture
def chat(warehouse_uri: str) -> str:
    make_chat(warehouse_uri)
    return warehouse_uri
