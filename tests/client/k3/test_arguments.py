"""Arguments of a wrong type are refused before anything is done, by every call."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import pytest

from lakewarden import Lakehouse
from lakewarden.client.k3 import K3
from lakewarden.errors import InvalidArgument, NotFound
from lakewarden.serve.http.k3_calls import CALLS, snake
from tests.client.k3.tables import BUCKET, COLUMNS, event, kinds, make

WRONG: dict[str, Callable[[Any], object]] = {
    "a description that is not text": lambda k3: k3.create_table(BUCKET, "new", COLUMNS, description=5),
    "keys that are no list": lambda k3: k3.create_table(BUCKET, "new", COLUMNS, merge_keys="id"),
    "partitions that are no list": lambda k3: k3.create_table(BUCKET, "new", COLUMNS, partition_columns="user_id"),
    "columns that are no objects": lambda k3: k3.create_table(BUCKET, "new", ["id"]),
    "a pipeline's description": lambda k3: k3.create_table_pipeline(BUCKET, "new", "csv", description=5),
    "settings that are no text": lambda k3: k3.enable_engine(BUCKET, settings={}),
    "rows that are no list": lambda k3: k3.insert(BUCKET, "given", {"id": 1}),
    "no rows": lambda k3: k3.merge(BUCKET, "given", None),
    "a set that is not an object": lambda k3: k3.update(BUCKET, "given", "event_type = 'x'", "id = 1"),
    "a condition that is not text": lambda k3: k3.delete_rows(BUCKET, "given", ["id = 1"]),
    "a statement that is not text": lambda k3: k3.execute(BUCKET, 5),
    "columns to sort by": lambda k3: k3.optimize(BUCKET, "given", z_order_columns="id"),
    "a word for a truth": lambda k3: k3.vacuum(BUCKET, "given", dry_run="no"),
}


@pytest.fixture(scope="module")
def given(k3: K3) -> str:
    table = make(k3, "given")
    k3.insert(BUCKET, table, [event(1)])
    return table


@pytest.mark.parametrize("call", CALLS)
def test_every_call_wants_text_for_a_bucket(k3: K3, call: str) -> None:
    method = getattr(k3, snake(call))
    needed = [name for name, one in signature(method).parameters.items() if one.default is Parameter.empty]
    with pytest.raises(InvalidArgument, match="bucket: Expected `str`, got `int`"):
        method(**{name: 5 if name == "bucket" else None for name in needed})


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_type_is_refused_and_changes_nothing(k3: K3, lake: Lakehouse, given: str, wrong: str) -> None:
    before = lake.warehouse.catalog.read()
    with pytest.raises(InvalidArgument, match="Expected"):
        WRONG[wrong](k3)
    assert lake.warehouse.catalog.read() == before
    assert kinds(k3, given) == {1: "click"}
    with pytest.raises(NotFound):
        k3.get_table(BUCKET, "new")
