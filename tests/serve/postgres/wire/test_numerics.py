"""NUMERIC in binary: what is written is read again, and what PostgreSQL writes is written."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.errors import InvalidArgument
from lakewarden.serve.postgres import kinds
from lakewarden.serve.postgres.kinds import Kind
from lakewarden.serve.postgres.messages import MalformedMessage
from lakewarden.serve.postgres.parameters import given as given_value
from lakewarden.serve.postgres.values import binary_numeric, numeric_of


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((kinds.FLOAT8, text) for text in ("1e400", "-1e400", "1e-400", "9" * 400, "1_0", "\u0663")),
        *((kinds.NUMERIC, text) for text in ("1e400", "1e-400", "1_0", "\u0663")),
        *((kinds.INT8, text) for text in ("9223372036854775808", "\u0663", "1.5")),
    ],
)
def test_a_text_that_would_become_another_number_is_refused(kind: Kind, text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"parameter 2 is not a value of type {kind.name}"):
        given_value(text.encode(), kind, 2, binary=False)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20))
def test_a_number_is_read_as_it_was_written(number: Decimal) -> None:
    found = numeric_of(binary_numeric(number))
    assert found == number
    assert -int(found.as_tuple().exponent) <= 6  # no more digits than it has


def test_the_form_is_postgresqls() -> None:
    assert binary_numeric(Decimal("-12345.67")).hex() == "0003000140000002000109291a2c"
    assert binary_numeric(Decimal("0.0001")).hex() == "0001ffff000000040001"
    assert binary_numeric(Decimal(0)).hex() == "0000000000000000"


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\0\1" + b"\0" * 6, bytes.fromhex("000100004000000 02710".replace(" ", ""))])
def test_another_form_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        numeric_of(data)
