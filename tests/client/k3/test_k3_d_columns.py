"""K3.D: columns, their types and their defaults."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakewarden.client.k3 import K3
from lakewarden.client.k3.wire import ColumnKind
from lakewarden.errors import ConstraintViolation, InvalidArgument, LakewardenError
from tests.client.k3.tables import BUCKET, column, run

TYPES = (
    *("UNSPECIFIED", "STRING", "INT", "LONG", "SHORT", "FLOAT", "DOUBLE"),
    *("BOOLEAN", "DATE", "TIMESTAMP", "BINARY", "JSON"),
)
Trip = Callable[[str, object], object]


@pytest.fixture(scope="module")
def trip(k3: K3) -> Trip:
    """Inserts a value into the column of a type, and reads it back from the log."""
    k3.create_table(
        BUCKET,
        "types",
        [column("id", "INT", nullable=False), *(column(f"c_{name}", name) for name in TYPES[1:])],
        merge_keys=["id"],
    )

    def through(kind: str, value: object) -> object:
        k3.insert(BUCKET, "types", [{"id": 1, f"c_{kind}": value}])
        (row,) = run(k3, f"SELECT c_{kind} AS v FROM types")["rows"]
        return row["v"]

    return through


def refuse(trip: Trip, kind: str, *values: object) -> None:
    for value in values:
        with pytest.raises(ConstraintViolation, match=f"c_{kind}"):
            trip(kind, value)


def test_k3_035_types_have_k3s_numbers() -> None:
    assert {each.wire: each.value for each in ColumnKind} == {f"COLUMN_TYPE_{name}": n for n, name in enumerate(TYPES)}


def test_k3_036_a_column_has_a_type(k3: K3) -> None:
    for bad in ({"name": "c", "type": "COLUMN_TYPE_UNSPECIFIED"}, {"name": "c"}):
        with pytest.raises(InvalidArgument, match="needs a type"):
            k3.create_table(BUCKET, "untyped", [bad])
    with pytest.raises(InvalidArgument, match="COLUMN_TYPE_LONG"):
        k3.create_table(BUCKET, "untyped", [{"name": "c", "type": "LONGISH"}])


def test_k3_037_strings_are_utf_8_and_empty_is_not_null(trip: Trip) -> None:
    assert trip("STRING", "grüß 🎉") == "grüß 🎉"
    assert trip("STRING", "") == ""
    assert trip("STRING", None) is None


def test_k3_038_int_has_32_bits(trip: Trip) -> None:
    assert trip("INT", -(2**31)) == -(2**31)
    assert trip("INT", "2147483647") == 2**31 - 1
    refuse(trip, "INT", 2**31, "2147483648", 1.5, "x", True)


def test_k3_039_long_is_exact_as_text(k3: K3, trip: Trip) -> None:
    assert trip("LONG", "9223372036854775807") == "9223372036854775807"
    assert trip("LONG", 2**53) == 2**53
    refuse(trip, "LONG", 2**63, "9223372036854775808", 1.0, "1_000", "\N{ARABIC-INDIC DIGIT THREE}", "abc")
    with pytest.raises(ConstraintViolation, match="no point"):  # by every call alike
        k3.update(BUCKET, "types", {"c_LONG": 1.0}, "id = 1")


def test_k3_040_short_has_16_bits(trip: Trip) -> None:
    assert trip("SHORT", 32767) == 32767
    refuse(trip, "SHORT", 32768)


def test_k3_041_float_has_32_bits(trip: Trip) -> None:
    assert trip("FLOAT", 1.5) == 1.5
    refuse(trip, "FLOAT", float("nan"), float("inf"), 1e300)


def test_k3_042_double_has_64_bits(trip: Trip) -> None:
    assert trip("DOUBLE", 0.1) == 0.1
    refuse(trip, "DOUBLE", float("nan"), float("-inf"), "x")


def test_k3_043_boolean(trip: Trip) -> None:
    assert (trip("BOOLEAN", True), trip("BOOLEAN", False)) == (True, False)
    refuse(trip, "BOOLEAN", 1, "true")


def test_k3_044_date(trip: Trip) -> None:
    assert trip("DATE", "2026-05-27") == "2026-05-27"
    refuse(trip, "DATE", "2026-02-30")


def test_k3_045_timestamps_are_microseconds(trip: Trip) -> None:
    noon = "2024-05-27T20:00:00.000000+00:00"
    for value in (1716840000000000, "1716840000000000", "2024-05-27 20:00:00", "2024-05-27T22:00:00+02:00"):
        assert trip("TIMESTAMP", value) == noon
    refuse(trip, "TIMESTAMP", 1.5, "2024-05-27 20:00:00.0000001", True)


def test_k3_046_binary_is_base64(trip: Trip) -> None:
    assert trip("BINARY", "AP8=") == "AP8="
    refuse(trip, "BINARY", "AP8", "not base64!")


def test_k3_047_json_is_any_document(trip: Trip, k3: K3) -> None:
    for value, read in (({"a": [1, None]}, "$.a[0]"), ([1, 2], "$[0]"), ('{"a": 1}', "$.a"), ("1", "$"), (1, "$")):
        trip("JSON", value)
        assert run(k3, f"SELECT json_extract(c_JSON, '{read}')::INT AS v FROM types")["rows"] == [{"v": 1}]
    assert trip("JSON", None) is None
    refuse(trip, "JSON", '{"a": ', float("nan"))


@pytest.mark.parametrize("text", ["a string", "", "1", "true", "null", '"quoted"', "it's", "ü\n{"])
def test_k3_047_a_string_is_a_json_string(k3: K3, text: str) -> None:
    k3.create_table(BUCKET, "strings", [column("id", "INT", nullable=False), column("j", "JSON")], merge_keys=["id"])
    try:
        k3.insert(BUCKET, "strings", [{"id": 1, "j": text}, {"id": 2, "j": [text]}, {"id": 3}])
        k3.merge(BUCKET, "strings", [{"id": 4, "j": text}])
        k3.update(BUCKET, "strings", {"j": text}, "id = 3")
        found = run(k3, "SELECT json_type(j) AS kind, j->>'$' AS value FROM strings WHERE id <> 2")["rows"]
        assert found == [{"kind": "VARCHAR", "value": text}] * 3
        assert run(k3, "SELECT j->>0 AS value FROM strings WHERE id = 2")["rows"] == [{"value": text}]
    finally:
        k3.delete_table(BUCKET, "strings")


def test_k3_048_json_is_queried_by_duckdbs_operators(k3: K3) -> None:
    k3.create_table(BUCKET, "docs", [column("id", "INT", nullable=False), column("payload", "JSON")], merge_keys=["id"])
    k3.insert(BUCKET, "docs", [{"id": 1, "payload": {"a": 1, "s": "x"}}, {"id": 2, "payload": {"a": 2, "s": "x"}}])
    shapes = "payload->>'s' AS s, json_extract(payload, '$.a') AS a, from_json(payload, '{\"a\": \"INTEGER\"}').a AS n"
    (row,) = run(k3, f"SELECT payload->'a' AS j, {shapes} FROM docs WHERE payload->>'a' = '1'")["rows"]
    assert row == {"j": "1", "s": "x", "a": "1", "n": 1}
    assert run(k3, "SELECT payload->>'s' AS s, count(*) AS n FROM docs GROUP BY 1")["rows"] == [{"s": "x", "n": 2}]
    keys = run(k3, "SELECT key FROM docs, json_each(docs.payload) WHERE docs.id = 1 ORDER BY key")["rows"]
    assert keys == [{"key": "a"}, {"key": "s"}]


DEFAULTS = (("uuid", "STRING", "GENERATE_UUID()"), ("at", "TIMESTAMP", "CURRENT_TIMESTAMP()"), ("ulid", "STRING", "ULID()"))


@pytest.fixture(scope="module")
def defaulted(k3: K3) -> str:
    literals = [column("n", "INT", nullable=False, default="42"), column("s", "STRING", default="'pending'")]
    made = [column(name, kind, nullable=False, default=text) for name, kind, text in DEFAULTS]
    k3.create_table(BUCKET, "defaulted", [column("id", "INT", nullable=False), *made, *literals], merge_keys=["id"])
    return "defaulted"


def test_k3_049_a_default_fills_what_is_absent_at_the_write(k3: K3, defaulted: str) -> None:
    shown = {each["name"]: each["defaultExpression"] for each in k3.get_table(BUCKET, defaulted)["columns"]}
    assert shown == {"id": "", "n": "42", "s": "'pending'"} | {name: text for name, _, text in DEFAULTS}
    k3.insert(BUCKET, defaulted, [{"id": 1}])
    (row,) = run(k3, f"SELECT * FROM {defaulted} WHERE id = 1")["rows"]
    assert (row["n"], row["s"], len(row["uuid"]), len(row["ulid"])) == (42, "pending", 36, 26)
    assert row["at"].startswith("20")


def test_k3_050_defaults_differ_by_row_and_stay(k3: K3, defaulted: str) -> None:
    k3.insert(BUCKET, defaulted, [{"id": 11}, {"id": 12}])
    read = f"SELECT uuid FROM {defaulted} WHERE id IN (11, 12) ORDER BY id"
    hot = run(k3, read)["rows"]
    assert hot[0] != hot[1]
    assert run(k3, read)["rows"] == hot
    k3.compact(BUCKET, defaulted)
    assert run(k3, read, "FRESHNESS_EVENTUAL")["rows"] == hot


def test_k3_051_a_default_is_checked_against_its_column(k3: K3) -> None:
    for kind, text in (("INT", "'abc'"), ("DATE", "GENERATE_UUID()"), ("SHORT", "40000")):
        with pytest.raises(InvalidArgument) as refused:
            k3.create_table(BUCKET, "bad_default", [column("c", kind, default=text)])
        assert text in refused.value.message


def test_k3_052_a_default_is_a_known_function_or_a_literal(k3: K3) -> None:
    for text in ("random()", "(SELECT 1)", "other_column", "1 + 1"):
        with pytest.raises(InvalidArgument, match="unknown default"):
            k3.create_table(BUCKET, "bad_default", [column("other_column", "INT"), column("c", "INT", default=text)])


@pytest.fixture(scope="module")
def required(k3: K3) -> str:
    columns = [column("id", "INT", nullable=False), column("must", "INT", nullable=False), column("may", "INT")]
    k3.create_table(BUCKET, "required", [*columns, column("seven", "INT", default="7")], merge_keys=["id"])
    return "required"


def test_k3_053_what_is_required_cannot_be_absent(k3: K3, required: str) -> None:
    with pytest.raises(ConstraintViolation, match="must"):
        k3.insert(BUCKET, required, [{"id": 1}])


def test_k3_054_what_is_nullable_is_null_where_it_is_absent(k3: K3, required: str) -> None:
    k3.insert(BUCKET, required, [{"id": 2, "must": 1}])
    assert run(k3, f"SELECT may, seven FROM {required} WHERE id = 2")["rows"] == [{"may": None, "seven": 7}]


def test_k3_055_null_is_not_absence(k3: K3, required: str) -> None:
    k3.insert(BUCKET, required, [{"id": 3, "must": 1, "seven": None}])
    assert run(k3, f"SELECT seven FROM {required} WHERE id = 3")["rows"] == [{"seven": None}]
    with pytest.raises(ConstraintViolation, match="must"):
        k3.insert(BUCKET, required, [{"id": 4, "must": None}])


def test_k3_056_an_unknown_column_is_named(k3: K3, required: str) -> None:
    with pytest.raises(LakewardenError, match="'nothing'"):
        k3.insert(BUCKET, required, [{"id": 5, "must": 1, "nothing": 1}])
