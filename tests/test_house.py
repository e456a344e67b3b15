"""The figures of the house stay within bounds, which only ever become tighter (docs/house.py)."""

from __future__ import annotations

import pytest

from docs.house import house


@pytest.mark.slow
def test_the_house_is_within_its_bounds() -> None:
    found = house()
    assert found.rooms <= 14
    assert found.layers == 11
    assert found.shared_names == 0
    assert found.packages <= 60
    assert found.modules <= 660
    assert found.lines <= 106_422
    assert found.longest_chain <= 40
    assert found.largest_package <= 20
    assert found.longest_module <= 396
    assert found.many_parameters <= 19
    assert found.comments >= 20
