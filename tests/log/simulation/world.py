"""One seed, one schedule: actors are greenlets, and each store call is a place where the world may turn.

There the scheduler switches to another actor, pauses this one for long, lets the call fail (before or after its effect,
or with an effect that comes later), or kills the actor. All of it follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from greenlet import getcurrent, greenlet

_PAUSES = (5, 20, 80, 300)


class Broken(Exception):
    """A promise of the protocol was not kept."""


class Killed(BaseException):
    """The actor's process is gone. Not an Exception: nothing may catch it."""


class Fate(Enum):
    DONE = "done"
    LOST = "done, answer lost"
    LATE = "not yet done, answer lost"


@dataclass(frozen=True)
class Odds:
    """How often things go wrong, per store call."""

    pause: float = 0.0
    fail: float = 0.0
    kill: float = 0.0
    crash: float = 0.0
    """That the machine stops, per step."""


@dataclass(eq=False)
class Actor:
    name: str
    body: greenlet
    wakes: int = 0
    dead: bool = False


@dataclass
class World:
    rng: random.Random
    odds: Odds
    trace: list[str] | None = None
    now: int = 0
    """Steps taken: the only time there is."""
    late: list[Callable[[], None]] = field(default_factory=list)
    """Effects of calls that were given up, yet to come."""
    actors: list[Actor] = field(default_factory=list)
    calm: bool = True
    """Nothing goes wrong and nobody else is switched to: before and after the actors run."""
    turns: Actor | None = None
    """Whose turn it is."""
    crashed: Callable[[], None] = lambda: None
    """What the machine's stop does to what is stored."""
    unsteady: int = 0
    """Until which step the machine stops sooner: a sync has failed, and what is not durable may be taken for it."""
    _ids: int = 0

    def spawn(self, name: str, body: Callable[[], None]) -> None:
        self.actors.append(Actor(name, greenlet(body)))

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:04x}" * 8

    def say(self, what: str) -> None:
        if self.trace is not None:
            here = "-" if self.calm or self.turns is None else self.turns.name
            self.trace.append(f"{self.now:5} {here:12} {what}")

    def run(self) -> None:
        """Until every actor is through or dead, or the machine stops."""
        self.calm = False
        live = list(self.actors)
        while live:
            self.now += 1
            if self.odds.crash and self.rng.random() < self.odds.crash * (20 if self.now < self.unsteady else 1):
                self.say("the machine stops")
                self.late.clear()
                self.crashed()
                break
            ready = [actor for actor in live if actor.wakes <= self.now]
            if not ready:
                self.now = min(actor.wakes for actor in live)
                continue
            # Long runs of one actor find other faults than a fair shuffle does.
            if self.turns is None or self.turns not in ready or self.rng.random() < 0.3:
                self.turns = self.rng.choice(ready)
            self.turns.body.switch()
            if self.turns.body.dead or self.turns.dead:
                live.remove(self.turns)
            if self.late and self.rng.random() < 0.02:
                self.late.pop(self.rng.randrange(len(self.late)))()
        self.calm = True

    def turn(self, what: str) -> Fate:
        """A store call is about to happen. Raises the failure if it is not to happen at all."""
        if self.calm:
            return Fate.DONE
        actor = self.turns
        if actor is None or actor.body is not getcurrent():
            raise Killed  # what is left of a killed actor is being collected
        # Whoever sleeps before it makes or reads a cut wakes in another world: the rarest faults hide there.
        if self.rng.random() < self.odds.pause * (5 if "/cuts/" in what else 1):
            actor.wakes = self.now + self.rng.choice(_PAUSES)
            self.say("pauses")
        _parent(actor).switch()
        self.say(what)
        return self._fate(actor, syncs=what.startswith("sync "))

    def _fate(self, actor: Actor, *, syncs: bool) -> Fate:
        dice = self.rng.random()
        if dice < self.odds.kill:
            self.die(actor)
        if dice <= 1 - self.odds.fail * (5 if syncs else 1):
            return Fate.DONE
        if syncs:
            self.unsteady = self.now + 50
        fate = self.rng.choice((None, Fate.LOST, Fate.LATE))
        self.say(f"  fails: {fate.value if fate else 'not done'}")
        if fate is None:
            raise Unanswered
        return fate

    def die(self, actor: Actor) -> None:
        self.say("  is killed")
        actor.dead = True
        _parent(actor).switch()
        raise Killed  # thrown into what is left of it when it is collected


def _parent(actor: Actor) -> greenlet:
    parent = actor.body.parent
    assert parent is not None, "an actor is run by the scheduler"
    return parent


class Unanswered(Exception):
    """The call fails without an effect; each store says it in its own words."""
