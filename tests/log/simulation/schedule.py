"""A schedule: its actors and odds follow from the seed; then peace, and what must be true of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

from lakewarden.base.recent import Recent
from lakewarden.base.setting_sections import LogSettings
from lakewarden.errors import Corrupt, LakewardenError
from lakewarden.log.objects import clean as clean_module
from lakewarden.log.objects import cut as cut_module
from lakewarden.log.objects import index as index_module
from lakewarden.log.objects import put as put_module
from lakewarden.log.objects import segment as segment_module
from lakewarden.log.objects.cache import IN_HAND, HeaderCache
from lakewarden.log.objects.clean import is_old
from lakewarden.log.objects.cut import newest_cut
from lakewarden.log.objects.cuts import fill as fill_module
from lakewarden.log.objects.cuts import next_cut as history_module
from lakewarden.log.objects.index import MANY
from lakewarden.log.objects.names import listings
from lakewarden.log.objects.view import read_view
from lakewarden.log.position import NOTHING, position_of
from tests.log.simulation.actors import COUNTER, LOG, Eraser, Flusher, Follower, Loser, Reader, Warehouse, Writer, drop
from tests.log.simulation.batches import Feed, Query
from tests.log.simulation.blocks import BlockWriter
from tests.log.simulation.images import SHARED, ImagedQuery, ImagedWriter, light_images
from tests.log.simulation.jobs import Job, Restorer, waits
from tests.log.simulation.premises import Premises
from tests.log.simulation.stores import Disk
from tests.log.simulation.world import Broken, Killed, Odds, World

_ODDS = (
    Odds(),
    Odds(pause=0.05),
    Odds(pause=0.1),
    Odds(pause=0.03, kill=0.01),
    Odds(pause=0.05, fail=0.03),
    Odds(pause=0.03, fail=0.05, kill=0.005),
)
_ON_DISK = (
    Odds(pause=0.05, crash=0.003),
    Odds(pause=0.03, kill=0.01, crash=0.003),
    Odds(pause=0.05, fail=0.05, crash=0.002),
)
_SETTINGS = tuple(
    LogSettings(carry_below=share, segment_max_rows=rows, retention_seconds=seconds)
    for share in (0.0, 0.5, 1.0)
    for rows, seconds in ((2, 60), (2, 10_000), (1000, 0), (1000, 10_000))
)
_POISONED = "p"
_QUERY = "query"


@dataclass(frozen=True)
class Memory:
    """Constants of the protocol, small, so that what lies beyond them comes soon. Erasures remembered times probes are at
    least the puts remembered, as they have to be."""

    probes: int = 8
    puts: int = 512
    erasures: int = 64
    cuts: int = 1
    """Cuts that are kept: where more than one, their listing shows no moment."""
    many: int = MANY
    """Chunks from which a segment has an index; if one is enough, in blocks of one chunk, each of which takes a read."""
    tiny: int = 0
    """Bytes of a segment whose rows stay with its header; here none are so large that they would not."""

    @contextmanager
    def kept(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module, name, value in (
                (put_module, "PROBES", self.probes),
                (fill_module, "PROBES", self.probes),
                (cut_module, "REMEMBERED", self.puts),
                (cut_module, "ERASURES_REMEMBERED", self.erasures),
                (clean_module, "_KEPT", self.cuts),
                (history_module, "JOINED", 3),
                (segment_module, "MANY", self.many),
                (segment_module, "_TINY", self.tiny),
                *(() if self.many > 1 else ((index_module, "BLOCK", 1), (segment_module, "_FIRST_READ", 64))),
            ):
                stack.enter_context(patch.object(module, name, value))
            yield


# A pruned cut's number is free again, which is where losers go wrong: with none kept back, that happens the soonest.
_MEMORIES = (
    Memory(),
    Memory(cuts=2),
    Memory(2, 4, 2),
    Memory(3, 512, 64, 3),
    Memory(many=1),
    Memory(2, 4, 2, many=1),
    Memory(tiny=4096),
    Memory(2, 4, 2, tiny=4096),
)

MakeFlusher = Callable[[Warehouse], Flusher]
MakeEraser = Callable[[Warehouse], Eraser]
MakeBlockWriter = Callable[[Warehouse], BlockWriter]
MakeFollower = Callable[[Warehouse], Follower]
_ERASED = ("u", "v")


@dataclass(frozen=True)
class Roles:
    """Who plays; a test that plants a fault replaces one of them."""

    flusher: MakeFlusher = Flusher
    eraser: MakeEraser = Eraser
    follower: MakeFollower = Follower
    disk: float = 0.25
    """How many schedules are on a disk, where the machine may stop."""
    erases: float = 0.3
    """How many schedules erase users, where nothing but the log is at work."""
    loses: float = 0.05
    """How many schedules lose an object."""
    jobs: float = 0.1
    """How many flush by whole jobs, and restore; nothing is erased or lost in those."""
    queries: int = 0
    """Processes that publish the batches of one streaming query, beside a feed."""
    blocks: int = 0
    """Processes with transaction blocks."""
    block_writer: MakeBlockWriter = BlockWriter
    images: bool = False
    """Whether every writer keeps the row before each row; then there is one scope, as of a SHARED table."""


AS_IT_IS = Roles()
STREAMS = Roles(loses=0, jobs=0, queries=3)
BLOCKS = Roles(loses=0, jobs=0, blocks=3)
IMAGES = Roles(erases=0, loses=0, jobs=0, queries=2, images=True)


def run_schedule(seed: int, roles: Roles = AS_IT_IS, trace: list[str] | None = None) -> None:
    """Raises `Broken` if a promise is not kept."""
    rng = random.Random(seed)
    on_disk = rng.random() < roles.disk
    world = World(rng, rng.choice(_ON_DISK if on_disk else _ODDS), trace)
    users = ("u", "v", _POISONED)[: rng.choice((1, 2, 2, 3))]
    users = (SHARED,) if roles.images else users
    memory = rng.choice(_MEMORIES)
    house = Warehouse(
        world,
        rng.choice(_SETTINGS),
        users,
        disk=Disk() if on_disk else None,
        cuts_missed=memory.cuts - 1,
        counted=rng.choice([user for user in users if user != _POISONED]),
        forgetful=memory.puts < Memory.puts,
    )
    if _POISONED in users:
        house.tables[_POISONED].broken = True
    in_hand = patch.multiple(IN_HAND, _clock=house.moment, _chunks=Recent(1 << 20))
    with memory.kept(), in_hand, light_images() if roles.images else nullcontext():
        if rng.random() < roles.jobs:
            premises = Premises(house)
            with premises.around():
                _run(house, roles, premises)
        else:
            _run(house, roles, None)


def _run(house: Warehouse, roles: Roles, premises: Premises | None) -> None:
    _cast(house, roles, premises)
    try:
        house.world.run()
    except Corrupt as error:  # actors expect failures and lost races, never this
        raise Broken(f"the log is called corrupt: {error.message}") from error
    try:
        _peace(house, roles, premises)
    except LakewardenError as error:
        raise Broken(f"in peace, with nothing failing: {error.message}") from error


def _cast(house: Warehouse, roles: Roles, premises: Premises | None) -> None:
    rng, spawn = house.world.rng, house.world.spawn
    writers = [(ImagedWriter if roles.images else Writer)(house) for _ in range(rng.choice((1, 2, 2, 3)))]
    for n, writer in enumerate(writers):
        spawn(f"writer {n}", _alive(partial(writer.write, rng.choice((1, 2, 4)))))
    for n in range(rng.choice((0, 0, 0, 1, 2)) if premises is None and not roles.images else 0):
        spawn(f"counter {n}", _alive(partial(Writer(house).count, rng.choice((1, 2)))))
    for n in range(rng.choice((1, 2, 3, 4))):
        flusher = roles.flusher(house) if premises is None else Job(house, premises)
        flusher.worth = rng.choice((1, 4))
        if rng.random() < 0.5:
            flusher.cache = rng.choice(writers).cache  # a process that writes and flushes
        spawn(f"flusher {n}", _alive(partial(flusher.flush, rng.choice((1, 2, 4)), rng.choice((0.5, 1.0, 1.0)))))
    for n in range(rng.choice((0, 1, 1))):
        spawn(f"reader {n}", _alive(partial(Reader(house).read, rng.choice((1, 3)))))
    for n in range(rng.choice((0, 1, 1))):
        spawn(f"follower {n}", _alive(partial(roles.follower(house).follow, rng.choice((2, 4, 8)))))
    for n in range(roles.queries):
        spawn(f"query {n}", _alive(partial(_query(house, roles).publish, rng.choice((1, 2, 4)))))
        spawn(f"feed {n}", _alive(partial(Feed(house).read, rng.choice((2, 4)))))
    for n in range(roles.blocks):
        spawn(f"block {n}", _alive(partial(roles.block_writer(house).blocks, rng.choice((1, 2)))))
    if premises is not None:
        _cast_jobs(house, premises)
    else:
        _cast_losses(house, roles)


def _query(house: Warehouse, roles: Roles) -> Query:
    return (ImagedQuery if roles.images else Query)(house, _QUERY)


def _cast_losses(house: Warehouse, roles: Roles) -> None:
    """Of objects, of a user's rows, or of the table."""
    rng, spawn = house.world.rng, house.world.spawn
    if rng.random() < roles.loses:
        spawn("loser", _alive(partial(Loser(house).lose, 30, repairs=rng.random() < 0.5)))
    erased = _ERASED if rng.random() < roles.erases else ()
    for user in erased:
        if user in house.users and (user == "v" or rng.random() < 0.5):
            spawn(f"eraser of {user}", _alive(partial(roles.eraser(house).erase, user, 3)))
    if not erased and rng.random() < 0.03:
        spawn("dropper", _alive(partial(drop, house)))


def _cast_jobs(house: Warehouse, premises: Premises) -> None:
    rng, spawn = house.world.rng, house.world.spawn
    spawn("auditor", _alive(partial(waits, house, [premises.check] * 4)))
    for n in range(rng.choice((0, 1, 1, 2))):
        spawn(f"restorer {n}", _alive(partial(Restorer(house, premises).restore, rng.choice((1, 2)))))
    if rng.random() < 0.2:
        spawn("mover", _alive(partial(waits, house, [partial(premises.close, closing=on) for on in (True, False)])))
    if rng.random() < 0.2:
        back = [premises.comes_back] if house.disk is not None else []
        spawn("storage", _alive(partial(waits, house, [premises.goes_away, *back])))


def _after_jobs(house: Warehouse, premises: Premises) -> None:
    """Nothing is away any more, and another job flushes what is left."""
    premises.check()
    if house.away:
        premises.comes_back()
    premises.closing = False
    Job(house, premises).flush(1)
    premises.check()


def _alive(body: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            body()
        except Killed:
            return

    return run


def _peace(house: Warehouse, roles: Roles, premises: Premises | None) -> None:
    """Nothing fails any more; half of what is still on its way arrives now, the rest after the last flush."""
    world = house.world
    if house.lost is not None or house.disk is not None:
        # A disk may keep a name that was not acknowledged and drop the one before it, which was not either.
        Loser(house).repair()
    if premises is not None:
        _after_jobs(house, premises)
    sealed = read_view(house.store, LOG, HeaderCache()).cut.sealed
    late = len(world.late) // 2
    for land in [world.late.pop(0) for _ in range(late)]:
        land()
    if sealed:
        return
    for user in house.journal.erasures:
        roles.eraser(house).erase(user, 1)
        Writer(house).write(1)
    _check_flushed(house, poisoned=_POISONED in house.users)
    while world.late:
        world.late.pop(0)()
    house.tables[house.users[-1]].broken = False
    query = _query(house, roles)
    query.finish()
    _check_flushed(house, poisoned=False)
    Feed(house).read(2)
    query.finished()
    for user in house.users:
        house.journal.finally_applied(user, house.tables[user].applied)
    house.journal.finally_ordered()
    if roles.images:
        house.journal.finally_imaged(house.tables[SHARED].applied)
    _check_counter(house)
    _check_remembered(house)


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
    kept = house.cuts_missed + 1
    if not listing.cuts.issuperset(range(max(1, newest - kept + 1), newest + 1)):
        raise Broken(f"the last {kept} cuts stay: of {newest} there are {sorted(listing.cuts)}")
    if listing.segments or any(is_old(version, newest) for version in listing.cuts) or left:
        raise Broken(f"no litter: a full flush leaves {sorted(house.objects)}")


def _check_remembered(house: Warehouse) -> None:
    """Up to where a user's rows were left out stays known, for writers that sleep and subscribers that come back."""
    known = newest_cut(house.store, LOG).erased
    for user, erasure in house.journal.erasures.items():
        if erasure.erased_at is not None and known.get(user.upper(), NOTHING) < position_of(erasure.upto):
            raise Broken(f"remembered: the cut does not say any more that {user} was erased")


def _check_counter(house: Warehouse) -> None:
    if house.lost is not None or house.counted in house.journal.erasures:
        return
    calls = [call for call in house.journal.calls if call.rows[0].key == COUNTER]
    values = [call.rows[0].value for call in calls if call.outcome == "acknowledged"]
    if len(set(values)) < len(values):
        raise Broken(f"what reads before it writes: of the counts {values} one was lost")
    winner = house.tables[house.counted].winners.get(COUNTER)
    made = sum(call.outcome != "refused" for call in calls)
    final = (winner.value or 0) if winner else 0
    if not len(values) <= final <= made:
        raise Broken(f"what reads before it writes: the counter is {final} after {len(values)} to {made} counts")
