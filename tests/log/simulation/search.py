"""Running many schedules, and showing one that fails."""

from __future__ import annotations

import gc
from collections.abc import Iterable

from tests.log.simulation.schedule import AS_IT_IS, Roles, run_schedule
from tests.log.simulation.world import Broken


def first_failure(seeds: Iterable[int], roles: Roles = AS_IT_IS) -> int | None:
    """The first seed whose schedule breaks a promise."""
    enabled = gc.isenabled()
    gc.disable()  # greenlets and tracebacks make cycles: collecting them now and then is a third cheaper than all the time
    try:
        for count, seed in enumerate(seeds):
            try:
                run_schedule(seed, roles)
            except Broken:
                return seed
            if count % 500 == 499:
                gc.collect()
    finally:
        if enabled:
            gc.enable()
    return None


def replayed(seed: int, roles: Roles = AS_IT_IS) -> str:
    """The schedule of a seed, step by step, with what it breaks at the end."""
    trace: list[str] = []
    try:
        run_schedule(seed, roles, trace)
    except Broken as broken:
        trace.append(f"BROKEN {broken}")
    steps = "\n".join(trace)
    return f"schedule {seed} (python -m tests.log.torture --replay {seed}):\n{steps}"
