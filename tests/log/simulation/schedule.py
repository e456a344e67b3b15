"""A schedule: its actors and odds follow from the seed; then peace, and what must be true of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.log import clean as clean_module
from lakewarden.log import history as history_module
from lakewarden.log.cache import HeaderCache
from lakewarden.log.clean import is_old
from lakewarden.log.cut import newest_cut
from lakewarden.log.names import listings
from lakewarden.log.view import read_view
from lakewarden.settings import LogSettings
from tests.log.simulation.actors import COUNTER, LOG, Eraser, Flusher, Follower, Reader, Warehouse, Writer, drop
from tests.log.simulation.world import Broken, Killed, Odds, World

_ODDS = (
    Odds(),
    Odds(pause=0.05),
    Odds(pause=0.1),
    Odds(pause=0.03, kill=0.01),
    Odds(pause=0.05, fail=0.03),
    Odds(pause=0.03, fail=0.05, kill=0.005),
)
_SETTINGS = tuple(
    LogSettings(carry_below=share, segment_max_rows=rows, retention_seconds=seconds)
    for share in (0.0, 0.5, 1.0)
    for rows, seconds in ((2, 60), (2, 10_000), (1000, 0), (1000, 10_000))
)
_POISONED = "p"

MakeFlusher = Callable[[Warehouse], Flusher]
MakeEraser = Callable[[Warehouse], Eraser]
MakeFollower = Callable[[Warehouse], Follower]
_ERASED = "v"


@dataclass(frozen=True)
class Roles:
    """Who plays; a test that plants a fault replaces one of them."""

    flusher: MakeFlusher = Flusher
    eraser: MakeEraser = Eraser
    follower: MakeFollower = Follower


AS_IT_IS = Roles()


def run_schedule(seed: int, roles: Roles = AS_IT_IS, trace: list[str] | None = None) -> None:
    """Raises `Broken` if a promise is not kept."""
    # A pruned cut's number is free again, which is where losers go wrong: with none kept back, that happens the soonest.
    with patch.object(clean_module, "_KEPT", 1), patch.object(history_module, "JOINED", 3):
        _run(seed, roles, trace)


def _run(seed: int, roles: Roles, trace: list[str] | None) -> None:
    rng = random.Random(seed)
    world = World(rng, rng.choice(_ODDS), trace)
    users = ("u", "v", _POISONED)[: rng.choice((1, 2, 2, 3))]
    house = Warehouse(world, rng.choice(_SETTINGS), users)
    if _POISONED in users:
        house.tables[_POISONED].broken = True
    _cast(house, roles)
    try:
        world.run()
    except Corrupt as error:  # actors expect failures and lost races, never this
        raise Broken(f"the log is called corrupt: {error.message}") from error
    try:
        _peace(house, roles)
    except LakewardenError as error:
        raise Broken(f"in peace, with nothing failing: {error.message}") from error


def _cast(house: Warehouse, roles: Roles) -> None:
    rng, spawn = house.world.rng, house.world.spawn
    for n in range(rng.choice((1, 2, 2, 3))):
        spawn(f"writer {n}", _alive(partial(Writer(house).write, rng.choice((1, 2, 4)))))
    for n in range(rng.choice((0, 0, 0, 1, 2))):
        spawn(f"counter {n}", _alive(partial(Writer(house).count, rng.choice((1, 2)))))
    for n in range(rng.choice((1, 2, 3, 4))):
        spawn(f"flusher {n}", _alive(partial(roles.flusher(house).flush, rng.choice((1, 2, 4)), rng.choice((0.5, 1.0, 1.0)))))
    for n in range(rng.choice((0, 1, 1))):
        spawn(f"reader {n}", _alive(partial(Reader(house).read, rng.choice((1, 3)))))
    for n in range(rng.choice((0, 1, 1))):
        spawn(f"follower {n}", _alive(partial(roles.follower(house).follow, rng.choice((2, 4, 8)))))
    if _ERASED in house.users and rng.random() < 0.3:
        spawn("eraser", _alive(partial(roles.eraser(house).erase, _ERASED, 3)))
    elif rng.random() < 0.03:
        spawn("dropper", _alive(partial(drop, house)))


def _alive(body: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            body()
        except Killed:
            return

    return run


def _peace(house: Warehouse, roles: Roles) -> None:
    """Nothing fails any more; half of what is still on its way arrives now, the rest after the last flush."""
    world = house.world
    sealed = read_view(house.store, LOG, HeaderCache()).cut.sealed
    late = len(world.late) // 2
    for land in [world.late.pop(0) for _ in range(late)]:
        land()
    if sealed:
        return
    if house.journal.erasing:
        roles.eraser(house).erase(_ERASED, 1)
        Writer(house).write(1)
    _check_flushed(house, poisoned=_POISONED in house.users)
    while world.late:
        world.late.pop(0)()
    house.tables.get(_POISONED, house.tables["u"]).broken = False
    _check_flushed(house, poisoned=False)
    for user in house.users:
        house.journal.finally_applied(user, house.tables[user].applied)
    house.journal.finally_ordered()
    _check_counter(house)


def _check_flushed(house: Warehouse, *, poisoned: bool) -> None:
    sound = [user for user in house.users if not (poisoned and user == _POISONED)]
    for user in sound:
        house.strong_read(user, HeaderCache())
    flusher = Flusher(house)
    flusher.flush(1)
    for user in sound:
        house.strong_read(user, HeaderCache())
    for _ in range(2):
        Follower(house).look()
    view = read_view(house.store, LOG, HeaderCache())
    left = set(view.pending) - ({_POISONED} if poisoned else set())
    if left:
        raise Broken(f"apart: a full flush leaves rows of {sorted(left)}")
    if not poisoned:
        _check_empty(house)
    elif house.settings.carry_below == 1.0 and any(r.user != _POISONED for h in (*view.carry, *view.run) for r in h.ranges):
        raise Broken("apart: a poisoned scope keeps rows of others in the log")


def _check_empty(house: Warehouse) -> None:
    """After a full flush the log is its last few cuts; carry made for a cut that was never created may wait for the next one."""
    listing = listings(house.objects).get(LOG)
    if listing is None:
        return
    newest = listing.newest_cut
    left = [key for key, version in listing.carry.items() if version <= newest]
    named = {kept.key for kept in newest_cut(house.store, LOG).history}
    left += [key for key, version in listing.history.items() if version <= newest and key not in named]
    if listing.segments or any(is_old(version, newest) for version in listing.cuts) or left:
        raise Broken(f"no litter: a full flush leaves {sorted(house.objects)}")


def _check_counter(house: Warehouse) -> None:
    calls = [call for call in house.journal.calls if call.rows[0].key == COUNTER]
    values = [call.rows[0].value for call in calls if call.outcome == "acknowledged"]
    if len(set(values)) < len(values):
        raise Broken(f"what reads before it writes: of the counts {values} one was lost")
    winner = house.tables["u"].winners.get(COUNTER)
    made = sum(call.outcome != "refused" for call in calls)
    final = (winner.value or 0) if winner else 0
    if not len(values) <= final <= made:
        raise Broken(f"what reads before it writes: the counter is {final} after {len(values)} to {made} counts")
