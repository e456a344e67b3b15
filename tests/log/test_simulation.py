"""The promises of the write log, under schedules in which processes sleep, die and lose answers (tests/log/simulation).

`LAKEWARDEN_SCHEDULES` sets how many; a schedule that fails is printed and can be replayed by its seed.
"""

from __future__ import annotations

import os

import pytest

from tests.fixtures.examples import FAST
from tests.log.simulation.planted import Fault
from tests.log.simulation.schedule import BLOCKS, IMAGES, STREAMS, Roles, run_schedule
from tests.log.simulation.search import first_failure, replayed
from tests.log.simulation.seeds import ALL_FAULTS, FOUND_WITHIN, seeds_of
from tests.log.simulation.world import Broken

_SHARES, _OF_THE_GATE = 40, 4
_SCHEDULES = int(os.environ.get("LAKEWARDEN_SCHEDULES", "200" if FAST else "4000")) // _SHARES
"""Of each share. As many in all as the planted fault wanted that was met last (seeds.json); `make torture` runs many more."""


def _share(number: int) -> range:
    return range(number * _SCHEDULES, (number + 1) * _SCHEDULES)


def _shares(gate: int, of: int) -> pytest.MarkDecorator:
    shares = [pytest.param(number, marks=() if number < gate else pytest.mark.night) for number in range(of)]
    return pytest.mark.parametrize("share", shares)


@_shares(_OF_THE_GATE, _SHARES)
def test_no_schedule_breaks_a_promise(share: int) -> None:
    seed = first_failure(_share(share))
    if seed is not None:
        pytest.fail(replayed(seed), pytrace=False)


@_shares(1, 2)
@pytest.mark.parametrize("roles", [STREAMS, BLOCKS, IMAGES], ids=["streams", "blocks", "before images"])
def test_no_schedule_with_more_roles_breaks_a_promise(share: int, roles: Roles) -> None:
    seed = first_failure(_share(share), roles)
    if seed is not None:
        pytest.fail(replayed(seed, roles), pytrace=False)


_NO_SEED_ALONE = {"publishes what an erasure removed that was in progress"}
"""Met behind others only, by what they leave in the process: looking for it takes seconds."""


@pytest.mark.parametrize(
    "fault",
    [pytest.param(one, id=one.name, marks=[pytest.mark.slow] * (one.name in _NO_SEED_ALONE)) for one in ALL_FAULTS],
)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    with fault.planted() as roles:
        seed = first_failure(seeds_of(fault), roles)
        assert seed is not None, f"{fault.name}: not noticed in {FOUND_WITHIN} schedules"
        with pytest.raises(Broken):
            run_schedule(seed, roles)


def test_a_schedule_follows_from_its_seed() -> None:
    assert replayed(1234) == replayed(1234)
    assert len(replayed(1234).splitlines()) > 20
