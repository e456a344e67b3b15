"""JSON's numbers through every door that reads them: as they were sent, or refused."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden import Column, Lakehouse
from lakewarden.base.exact_json import JsonNumber, decoded, encode
from lakewarden.catalog.column_types import ColumnType
from lakewarden.client.k3.values import native_rows
from lakewarden.errors import ConstraintViolation, LakewardenError
from lakewarden.ingest.load_formats import parse_json
from lakewarden.ingest.templates.json_files import JSON
from lakewarden.tables.rows.columns import Unfit
from lakewarden.tables.rows.intake import to_arrow
from lakewarden.tables.rows.text import from_json
from tests.ingest.fitting import fitted
from tests.ingest.templates.objects import columns, read

COLUMNS = [
    Column("id", "BIGINT", nullable=False),
    Column("d", "DECIMAL(18,2)"),
    Column("wide", "DECIMAL(38,20)"),
    Column("x", "DOUBLE"),
    Column("doc", "JSON"),
]

TAKEN: list[tuple[str, str, object]] = [
    ("d", "999999999999999.99", Decimal("999999999999999.99")),
    ("d", "1000000000000000.00", Decimal("1000000000000000.00")),
    ("d", "-9999999999999999.99", Decimal("-9999999999999999.99")),
    ("d", "1e2", Decimal("100.00")),
    ("d", "1.0E-2", Decimal("0.01")),
    ("d", "-0.0", Decimal("0.00")),
    ("d", "-0", Decimal("0.00")),
    ("id", "-0", 0),
    ("x", "-0", -0.0),
    ("x", "-0e5", -0.0),
    ("wide", "123456789012345678.12345678901234567891", Decimal("123456789012345678.12345678901234567891")),
    ("id", "9007199254740993", 9007199254740993),
    ("id", "-9223372036854775808", -(2**63)),
    ("x", "0.1", 0.1),
    ("x", "1.2345678901234567890123", 1.2345678901234567),
    ("x", "1.7976931348623157e308", 1.7976931348623157e308),
    ("x", "5e-324", 5e-324),
    ("x", "-0.0", -0.0),
    (
        "doc",
        '{"n":[1.10,1e2,-0.0,-0,0,100E-2,123456789012345678901234567890]}',
        '{"n":[1.10,1e2,-0.0,-0,0,100E-2,123456789012345678901234567890]}',
    ),
]

REFUSED = [
    ("d", "0.001"),
    ("d", "99999999999999999.99"),
    ("d", "1e400"),
    ("d", "1e-400"),
    ("id", "1.0"),
    ("id", "1e2"),
    ("id", "9223372036854775808"),
    ("x", "1e400"),
    ("x", "1e-400"),
    ("x", "1E99999999999999999999"),
]

DOORS = ["kafka json", "kafka debezium-json", "load", "template", "k3", "k3 text"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    lake = Lakehouse.open(str(tmp_path_factory.mktemp("lake")))
    lake.create_namespace("n")
    lake.create_table("n.t", columns=COLUMNS)
    return lake


def through(lake: Lakehouse, door: str, text: str) -> list[dict[str, Any]]:
    """The row of a JSON text as the door makes it, before anything is written."""
    client = lake.table("n.t")
    schema = client.table.schema
    row = text.encode()
    if door.startswith("kafka"):
        how = door.removeprefix("kafka ")
        value = row if how == "json" else b'{"op":"c","after":%s}' % row
        made = fitted(lake, "n.t", how, (None, value))
        if made.misfits:
            raise ConstraintViolation(made.misfits[0].reason)
        return made.batch.rows.select(schema.names).to_pylist()
    if door == "load":
        given = parse_json(schema, row, ())
        if given.misfits or given.broken:
            raise ConstraintViolation("; ".join([*given.misfits.values(), *given.broken.values()]))
        return [{name: values[0].as_py() for name, values in given.columns.items()}]
    if door == "template":
        return read(JSON, row, columns(**{column.name: str(column.type) for column in schema.columns})).to_pylist()
    native = native_rows(schema, [text if door == "k3 text" else decoded(row)])  # type: ignore[list-item]
    return to_arrow(native, schema).to_pylist()


@pytest.mark.parametrize("door", DOORS)
def test_a_number_is_the_one_that_was_sent(lake: Lakehouse, door: str) -> None:
    for name, text, value in TAKEN:
        row = f'{{"id": {text}}}' if name == "id" else f'{{"id": 1, "{name}": {text}}}'
        (found,) = through(lake, door, row)
        assert (str(found[name]), type(found[name])) == (str(value), type(value)), (name, text)


@pytest.mark.parametrize("door", DOORS)
def test_a_number_that_would_change_is_refused_by_its_column(lake: Lakehouse, door: str) -> None:
    for name, text in REFUSED:
        row = f'{{"id": {text}}}' if name == "id" else f'{{"id": 1, "{name}": {text}}}'
        with pytest.raises((LakewardenError, ValueError)) as refused:
            through(lake, door, row)
        assert name in str(refused.value) or "out of" in str(refused.value), (text, refused.value)


@pytest.mark.parametrize("half", [r"\ud800", r"\udc00", r"a\ud83d", r"\ud83dA\ude00"])
@pytest.mark.parametrize("door", [door for door in DOORS if door != "k3"])
def test_half_of_a_surrogate_pair_is_refused_as_what_it_is(lake: Lakehouse, door: str, half: str) -> None:
    with pytest.raises(LakewardenError, match=r"half of a surrogate pair|in valid Unicode"):
        through(lake, door, f'{{"id": 1, "doc": ["{half}"]}}')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"rows": [{"id": 1, "c": NaN}]}', "$.rows[0].c"),
        ('{"rows": [{"id": 1}, {"c": {"b": 1, "b": 2}}]}', "$.rows[1].c"),
        ('{"c": [1, "\\ud800"]}', "$.c[1]"),
        ('{"c": 1e99999999999999999999}', "$.c"),
        ('{"c": ' + "1" * 5000 + "}", "$.c"),
        ('{"c": ' + "[" * 100_000 + "}", "$.c[0][0][0]"),
        ('{"c": 01}', "$.c"),
        ('[[], [1, {"c": tru}]]', "$[1][1].c"),
        ('{"c": 1', "$.c"),
        ('{"c": 1, "c": 2}', ""),
        ("{c: 1}", ""),
        ("nul", ""),
    ],
)
def test_a_fault_of_a_json_text_is_named_by_its_place(text: str, place: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as refused:
        decoded(text.encode())
    assert str(refused.value).partition("at `")[2].rstrip("`") == place


def test_the_place_of_a_fault_is_not_looked_for_in_a_long_text() -> None:
    long = f"[{'[1],' * 50_000}x]".encode()
    with pytest.raises(ValueError, match=r"byte 200001\)$"):
        decoded(long)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**15), max_value=10**15))
def test_any_decimal_and_any_double_that_json_writes_are_themselves(number: Decimal) -> None:
    assert from_json(ColumnType.parse("DECIMAL(18,2)"), [decoded(str(number).encode())]).to_pylist() == [number]
    wide = float(number) / 3
    assert from_json(ColumnType.parse("DOUBLE"), [decoded(json.dumps(wide).encode())]).to_pylist() == [wide]


_DIGITS = st.lists(st.integers(0, 9), min_size=1, max_size=40).map(tuple)
_DECIMALS = st.builds(
    lambda sign, digits, point: Decimal((sign, digits, point)), st.integers(0, 1), _DIGITS, st.integers(-50, 50)
)
_SCALARS = st.one_of(st.none(), st.booleans(), st.text(), st.integers(), _DECIMALS)


@given(st.recursive(_SCALARS, st.lists))
def test_nested_values_are_written_as_they_were_read(value: Any) -> None:
    text = encode(value)
    assert encode(decoded(text.encode())) == text
    assert json.loads(text, parse_float=Decimal) == value


def test_a_value_that_json_does_not_have_is_refused() -> None:
    for value in (
        math.nan,
        [math.inf],
        {"a": b""},
        {"a": Decimal("NaN")},
        {"a": [JsonNumber("1.5"), math.nan]},
        {1.5: JsonNumber("1.5")},
    ):
        with pytest.raises((ValueError, TypeError)):
            encode(value)
    with pytest.raises(Unfit):
        from_json(ColumnType.parse("JSON"), [{"a": math.nan}])


def test_rows_that_k3_inserts_merges_and_updates_keep_their_digits(lake: Lakehouse) -> None:
    lake.k3.create_bucket("b")
    lake.create_table("b.t", columns=COLUMNS, primary_key=["id"])
    first = '{"id": 1, "d": 999999999999999.99, "wide": 0.3, "x": 0.1, "doc": {"n": 1.10}}'
    lake.k3.insert("b", "t", [first])
    rows = [
        first.replace("0.3", "0.00000000000000000001"),
        first.replace('"id": 1', '"id": 2').replace("0.3", "123456789012345678.5"),
    ]
    lake.k3.merge("b", "t", rows)
    lake.k3.update("b", "t", {"d": JsonNumber("0.3"), "wide": JsonNumber("1e-20"), "x": JsonNumber("1e300")}, "id = 2")
    with pytest.raises(ConstraintViolation, match="column 'd'"):
        lake.k3.update("b", "t", {"d": JsonNumber("0.001")}, "id = 2")
    found = sorted(lake.table("b.t").read().to_pylist(), key=lambda row: row["id"])
    tiny = Decimal("0.00000000000000000001")
    assert [tuple(row.values()) for row in found] == [
        (1, Decimal("999999999999999.99"), tiny, 0.1, '{"n":1.10}'),
        (2, Decimal("0.30"), tiny, 1e300, '{"n":1.10}'),
    ]
