"""Any sequence of flushes, with maintenance in between, equals a dictionary; and so does what a strong reader merges."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.reading.rows import merged, read_rows
from lakewarden.storage.steps import alone
from tests.delta.scopes import APP, Row, hot_of, opened, rows_of, schema, table_of, target

Key = tuple[int, str]
Step = tuple[Key, int | None]
"""A write; a delete where the value is None."""

_PAIRS = schema("a INT NOT NULL", "b TEXT NOT NULL", "v BIGINT", key=("a", "b"))
_STEPS = st.tuples(st.tuples(st.integers(0, 6), st.sampled_from(["x", "y", ""])), st.none() | st.integers(0, 99))
_BATCHES = st.lists(st.lists(_STEPS, min_size=1, max_size=8) | st.sampled_from(["compact", "checkpoint"]), min_size=1, max_size=8)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 3)  # each is a dozen commits
@given(batches=_BATCHES, unflushed=st.lists(_STEPS, max_size=5))
def test_flushes_equal_a_dictionary(batches: list[list[Step] | str], unflushed: list[Step]) -> None:
    model: dict[Key, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        scope = target(Path(directory) / "t", _PAIRS)
        seq = _flush(scope, [((0, "x"), 0)], model, 0)
        for batch in batches:
            if isinstance(batch, str):
                _maintain(scope.uri, batch)
                continue
            seq = _flush(scope, batch, model, seq)
            assert _pairs(rows_of(scope)) == model
            assert (table_of(scope).watermark(APP), table_of(scope).state(APP).rows) == (seq - 1, len(model))
        cold = read_rows(table_of(scope), scope.schemas)
        seen = merged(cold, hot_of(_PAIRS, _rows(unflushed, model), seq), _PAIRS.primary_key).to_pylist()
        assert (_pairs(seen), len(seen)) == (model, len(model))


def _flush(scope: ScopeTarget, steps: list[Step], model: dict[Key, int], seq: int) -> int:
    end = seq + len(steps)
    alone(opened(scope).commit(hot_of(_PAIRS, _rows(steps, model), seq), end - 1))
    return end


def _rows(steps: list[Step], model: dict[Key, int]) -> list[tuple[Row, bool]]:
    """The steps as rows; the model takes them too."""
    for key, value in steps:
        model.pop(key, None)
        if value is not None:
            model[key] = value
    return [({"a": a, "b": b, "v": value}, value is None) for (a, b), value in steps]


def _pairs(rows: list[Row]) -> dict[Key, int]:
    return {(row["a"], row["b"]): row["v"] for row in rows}


def _maintain(uri: str, what: str) -> None:
    if what == "compact":
        DeltaTable(uri).optimize.compact()
    else:
        DeltaTable(uri).create_checkpoint()
