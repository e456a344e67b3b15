from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.base.recent import Recent

KEYS = st.integers(0, 5)
STEP = st.one_of(st.tuples(st.just("put"), KEYS, st.integers(0, 6)), st.tuples(st.sampled_from(["get", "forget"]), KEYS))


@given(st.lists(STEP), st.integers(0, 12), st.integers(1, 4))
def test_it_is_a_simple_list_of_what_was_used_last(steps: list[tuple[str, int, int]], most: int, share: int) -> None:
    recent: Recent[int, str] = Recent(most, share)
    model: list[tuple[int, str, int]] = []
    for number, (verb, key, *size) in enumerate(steps):
        found = [each for each in model if each[0] == key]
        if verb == "get":
            assert recent.get(key) == (found[0][1] if found else None)
        if found:
            model.remove(found[0])
        if verb == "get":
            model += found
        elif verb == "forget":
            recent.forget(key)
        else:
            recent.put(key, str(number), size[0])
            model += [(key, str(number), size[0])] if size[0] <= most // share else []
            while sum(each[2] for each in model) > most:
                model.pop(0)
    assert {key: value for key in range(6) if (value := recent.get(key)) is not None} == {key: text for key, text, _ in model}


@pytest.mark.parametrize("falsy", ["", 0, False])
def test_a_falsy_value_is_a_value(falsy: object) -> None:
    recent: Recent[str, object] = Recent(1)
    recent.put("a", falsy)
    assert recent.get("a") is falsy
