"""K3.A: the wire form, as far as dicts have one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakewarden.client.k3 import K3
from lakewarden.errors import InvalidArgument
from tests.client.k3.tables import BUCKET, column, event, make


def test_k3_001_int64_is_text(k3: K3) -> None:
    make(k3, "texts")
    k3.insert(BUCKET, "texts", [event(1)])
    k3.compact(BUCKET, "texts")
    table = k3.get_table(BUCKET, "texts")
    assert (table["deltaVersion"], table["rowCount"]) == ("1", "1")
    assert str(table["sizeBytes"]).isdecimal()
    assert json.loads(json.dumps(table)) == table


def test_k3_002_answers_are_camel_case_and_requests_snake_case(k3: K3) -> None:
    made: Any = k3.create_table(BUCKET, "cased", [column("c", "INT", default="1")], partition_columns=[], merge_keys=[])
    assert made["columns"] == [{"name": "c", "type": "COLUMN_TYPE_INT", "nullable": True, "defaultExpression": "1"}]
    with pytest.raises(InvalidArgument, match="defaultExpression"):
        k3.create_table(BUCKET, "cased_too", [{"name": "c", "type": "COLUMN_TYPE_INT", "defaultExpression": "1"}])


def test_k3_004_int64_is_taken_as_text_and_as_a_number(k3: K3) -> None:
    make(k3, "numbers")
    for limit in (1, "1"):
        assert len(k3.history(BUCKET, "numbers", limit=limit)) == 1
    for name in ("limit", "before_version"):
        with pytest.raises(InvalidArgument, match=f"{name} 'abc'"):
            k3.history(BUCKET, "numbers", **{name: "abc"})
        with pytest.raises(InvalidArgument, match=f"{name} '--5'"):
            k3.history(BUCKET, "numbers", **{name: "--5"})


def test_k3_005_an_unknown_enum_lists_the_names(k3: K3) -> None:
    with pytest.raises(InvalidArgument, match="COLUMN_TYPE_STRING"):
        k3.create_table(BUCKET, "unknown", [{"name": "c", "type": "COLUMN_TYPE_TEXT"}])
    with pytest.raises(InvalidArgument, match="append, overwrite"):
        k3.insert(BUCKET, make(k3, "modes"), [], mode="upsert")


def test_k3_008_every_field_is_there(k3: K3) -> None:
    make(k3, "every", keyed=False)
    table = k3.get_table(BUCKET, "every")
    assert (table["mergeKeys"], table["partitionColumns"], table["description"], table["pipelineId"]) == ([], [], "", "")
    answer = k3.insert(BUCKET, "every", [event(1)])
    fields = {"strategy", "rowsWritten", "noop", "pendingDrain", "version", "targetTable", "warnings"}
    assert answer.keys() == fields
    assert (answer["warnings"], answer["noop"]) == ([], False)
