"""A flush, an update, an overwrite, an append and an optimize of the same partition, in every order, and killed at every step.

What another process committed before counts as done before, also where it came in between; and what comes behind is on top.
"""

from __future__ import annotations

from functools import partial

import pytest

from lakewarden import Lakehouse
from lakewarden.base.faults import no_faults
from tests.fixtures.lakes import lake_fixture
from tests.maintenance.steps import Died, dies, then
from tests.tables.direct.boards import once
from tests.tables.direct.crossings import KEYED, KEYLESS, STRANGER, Change, Place, State, begin, found, make_table

pytestmark = [pytest.mark.slow, pytest.mark.disk]

each_pair = pytest.mark.parametrize(
    ("keyed", "one", "other"),
    [
        pytest.param(keyed, one, other, id=f"{'keyed' if keyed else 'keyless'} {one.name} and {other.name}")
        for keyed, every in ((True, KEYED), (False, KEYLESS))
        for one in every
        for other in (*every, STRANGER)
    ],
)


lake = lake_fixture(sql="CREATE NAMESPACE app")


@pytest.mark.covering
@each_pair
def test_what_comes_in_between_is_seen_or_on_top(lake: Lakehouse, one: Change, other: Change, *, keyed: bool) -> None:
    for number, step in enumerate(one.steps):
        table = make_table(lake, f"app.t{number}", keyed=keyed)
        other_runs = once(partial(other.run, lake, table, no_faults))
        one.run(lake, table, then(step, other_runs))
        lake.flush(f"app.t{number}")
        order = (other, one) if step in one.before else (one, other)
        assert found(table) == _after(begin(keyed=keyed), *order), step
    assert not [finding for finding in lake.check() if not finding.passed]


@pytest.mark.covering
@each_pair
def test_what_died_is_whole_or_not_there(lake: Lakehouse, warehouse_uri: str, one: Change, other: Change, *, keyed: bool) -> None:
    for number, step in enumerate(one.steps):
        table = make_table(lake, f"app.t{number}", keyed=keyed)
        with pytest.raises(Died):
            one.run(lake, table, dies(step))
        with Lakehouse.open(warehouse_uri) as again:
            table = again.table(f"app.t{number}")
            other.run(again, table, no_faults)
            again.flush(f"app.t{number}")
            left = one.first(begin(keyed=keyed)) if step in one.before else one.model(begin(keyed=keyed))
            assert found(table) == _after(left, other), step
    with Lakehouse.open(warehouse_uri) as again:
        assert not [finding for finding in again.check() if not finding.passed]


def _after(state: State, *changes: Change) -> dict[tuple[Place, str], int]:
    for change in changes:
        state = change.model(state)
    return state.rows()
