"""Keys and values of messages: FL-68 to FL-70."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa

from lakewarden.ingest.relay import ChangelogMode, MessageForm, messages

_ROWS = pa.table({"id": [1, 1, 1, 1], "user": ["a", "a", "b", "b"]})
_KINDS = ["insert", "update_preimage", "update_postimage", "delete"]


def _published(mode: ChangelogMode, key: tuple[str, ...] = ("id",)) -> list[tuple[object, object]]:
    form = MessageForm(("id", "user"), key, mode)
    found = messages(form, _ROWS, _KINDS, [0] * 4)
    return [(each.key and json.loads(each.key), each.value and json.loads(each.value)) for each in found]


def test_all_has_the_row_before_and_after() -> None:
    first, second = {"id": 1, "user": "a"}, {"id": 1, "user": "b"}
    assert _published("all") == [
        ({"id": 1}, {"before": None, "after": first, "op": "c"}),
        ({"id": 1}, {"before": first, "after": second, "op": "u"}),
        ({"id": 1}, {"before": second, "after": None, "op": "d"}),
    ]


def test_upsert_has_the_row_after_and_the_key_of_what_is_gone() -> None:
    assert [value for _, value in _published("upsert")] == [
        {"before": None, "after": {"id": 1, "user": "a"}, "op": "c"},
        {"before": None, "after": {"id": 1, "user": "b"}, "op": "c"},
        {"before": {"id": 1}, "after": None, "op": "d"},
    ]


def test_without_a_primary_key_there_is_no_key() -> None:
    assert [key for key, _ in _published("all", ())] == [None] * 3


def test_values_have_the_forms_of_json_output() -> None:
    moment = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
    rows = pa.table({"a": [b"\0\1"], "b": [moment], "c": [Decimal("1.50")], "d": [float("nan")], "e": [2**62]})
    (message,) = messages(MessageForm(("a", "b", "c", "d", "e"), (), "all"), rows, ["insert"], [3])
    assert message.partition == 3
    assert json.loads(message.value or b"")["after"] == {
        "a": "AAE=",
        "b": "2026-11-23T09:30:00.000000+00:00",
        "c": "1.50",
        "d": "NaN",
        "e": 2**62,
    }
