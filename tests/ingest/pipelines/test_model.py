"""Uploads, deletions, ingests that die or meet, triggers, and ledgers that are put back or lose a run, in any order, beside an
oracle that keeps two dictionaries."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import settings as tried
from hypothesis import strategies as st

from lakewarden import Lakehouse
from lakewarden.base.faults import Reach, no_faults
from lakewarden.base.setting_sections import PipelinesSettings
from lakewarden.base.settings import Settings
from lakewarden.catalog.state.ledger_runs import RunName
from lakewarden.errors import FailedPrecondition, NotFound
from tests.fixtures.bucket import fresh_place
from tests.ingest.pipelines.uploads import ingest, make, place, rejects, table, upload
from tests.maintenance.steps import Died, dies, then

Name = Literal["a.csv", "b.csv", "c.csv", "d.txt"]
KEYS: tuple[Name, ...] = ("a.csv", "b.csv", "c.csv", "d.txt")
IN_TASKS = Settings(pipelines=PipelinesSettings(spark_objects=1))
STEPS = ("planned", "batch", "read", "grown", "named", "committed", "rejects", "settled")


@dataclass(frozen=True)
class Upload:
    key: Name
    ids: tuple[int, ...]
    """Of its rows; none of a file that cannot be read."""


@dataclass(frozen=True)
class Remove:
    key: Name


@dataclass(frozen=True)
class Ingest:
    forced: Name | None
    step: str
    """Where it dies; or, as `meets …`, where another one runs; empty for neither."""


@dataclass(frozen=True)
class Backup:
    """A copy of the ledger."""


@dataclass(frozen=True)
class PutBack:
    """The copy takes the ledger's place."""


@dataclass(frozen=True)
class Lose:
    """A run of the ledger, of those that are there."""

    which: int


Act = Upload | Remove | Ingest | Backup | PutBack | Lose


def steps() -> st.SearchStrategy[str]:
    return st.just("") | st.sampled_from(STEPS) | st.sampled_from(STEPS).map("meets {}".format)


ACTS = st.lists(
    st.builds(Upload, st.sampled_from(KEYS), st.lists(st.integers(0, 3), max_size=3).map(tuple))
    | st.builds(Remove, st.sampled_from(KEYS))
    | st.builds(Ingest, st.none() | st.sampled_from(KEYS), steps())
    | st.just(Backup())
    | st.just(PutBack())
    | st.builds(Lose, st.integers(0, 2)),
    max_size=8,
)


Objects = list[tuple[str, int]]
"""Keys and numbers of uploads."""


@dataclass
class Oracle:
    """What there is: objects, what was taken of each, rows, and a batch that nobody has finished."""

    keyed: bool
    in_tasks: bool = False
    """Whether columns are looked for apart, once the table has some: only where an object brings more."""
    objects: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """By key, the number of the upload and the ids."""
    known: dict[str, int] = field(default_factory=dict)
    rows: dict[object, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By object, or of a keyed table by id: (id, number of the upload)."""
    bad: set[str] = field(default_factory=set)
    batches: int = 0
    open: Objects | None = None
    landed: Objects | None = None
    """The last batch whose rows are there, settled or not."""
    landings: int = 0
    outcome: dict[str, bool] = field(default_factory=dict)
    """Of its objects, whether each could be read."""
    kept: tuple[dict[str, int], Objects | None, Objects | None, dict[str, bool], int] | None = None
    """What a backup has."""
    shaped: bool = False
    hit: Callable[[str], object] = lambda _step: None
    """Called at each step, as `reach` of an ingest is."""

    def ingest(self, forced: str | None) -> None:
        self._finish()
        while new := self._new(forced):
            batches = self.batches
            self.hit("planned")
            if batches != self.batches:  # by another that was met
                self._finish()
                continue
            self.open = new
            self.batches += 1
            self.hit("batch")
            self._finish()
            return

    def other(self) -> None:
        """An ingest beside this one, which dies nowhere."""
        self.ingest(None)

    def backup(self) -> None:
        self.kept = (dict(self.known), self.open, self.landed, self.outcome, self.landings)

    def put_back(self) -> bool:
        """Returns whether the ledger lacks something then."""
        assert self.kept is not None
        known, self.open, self.landed, self.outcome, landings = self.kept
        self.known = dict(known)
        if landings != self.landings:
            self.lose()
        return landings != self.landings

    def lose(self) -> None:
        """Behind the repair nothing is known of any object."""
        self.known, self.open, self.landed = {}, None, None
        self.kept = None

    def _new(self, forced: str | None) -> Objects:
        if forced is not None:
            return [(forced, self.objects[forced][0])]
        there = [(key, number) for key, (number, _) in self.objects.items() if key.endswith(".csv")]
        return sorted((one for one in there if self.known.get(one[0]) != one[1]), key=lambda one: one[1])

    def _finish(self) -> None:
        batch = self.open
        if batch is None:
            return
        if self.landed is not batch and not self._land(batch):
            return
        self.bad -= self.outcome.keys()
        self.bad |= {key for key, good in self.outcome.items() if not good}
        self.hit("rejects")
        if self.open is batch:
            self.open = None
        self.hit("settled")

    def _land(self, batch: Objects) -> bool:
        """Makes its rows count; False where another settled it meanwhile."""
        grows = not (self.in_tasks and self.shaped)
        self.hit("read")
        self.shaped = self.shaped or any(self.objects[key][1] for key in self._there(batch))
        if grows:
            self.hit("grown")
        self.hit("named")
        if self.open is not batch:
            return False
        self.landed, self.outcome = batch, {}
        self.landings += 1
        for key in self._there(batch):
            self._take(key)
        if self.shaped:
            self.hit("committed")
        return True

    def _there(self, batch: Objects) -> list[str]:
        return [key for key, number in batch if key in self.objects and self.objects[key][0] == number]

    def _take(self, key: str) -> None:
        number, ids = self.objects[key]
        self.known[key] = number
        self.outcome[key] = bool(ids)
        if not ids:
            return
        made = tuple((one, number) for one in ids)
        if not self.keyed:
            self.rows[key] = made
        for one in made if self.keyed else ():
            self.rows[one[0]] = (one,)


KINDS = pytest.mark.parametrize(
    ("keyed", "settings"),
    [(False, Settings()), pytest.param(True, Settings(), marks=pytest.mark.night), (True, IN_TASKS)],
    ids=["", "keyed", "keyed in tasks"],
)


@pytest.mark.night
@KINDS
@given(acts=ACTS)
def test_rows_are_those_of_the_oracle_in_more_orders(keyed: bool, settings: Settings, acts: list[Act]) -> None:
    check(keyed, settings, acts)


@pytest.mark.slow
@KINDS
@tried(max_examples=max(tried().max_examples // 4, 5))
@example(acts=[Upload("a.csv", ()), Ingest(None, "rejects"), Ingest(None, "rejects")])
@example(acts=[Upload("a.csv", (1,)), Ingest(None, "committed"), Ingest(None, "rejects")])
@example(acts=[Upload("a.csv", (1,)), Ingest(None, ""), Upload("a.csv", (2,)), Ingest(None, "grown")])
@example(acts=[Upload("a.csv", (1,)), Ingest(None, ""), Backup(), Upload("b.csv", (2,)), Ingest(None, ""), PutBack()])
@example(acts=[Upload("a.csv", (1,)), Ingest(None, ""), Upload("b.csv", (2,)), Ingest(None, "committed"), Lose(0)])
@given(acts=ACTS)
def test_rows_are_those_of_the_oracle(keyed: bool, settings: Settings, acts: list[Act]) -> None:
    check(keyed, settings, acts)


def check(keyed: bool, settings: Settings, acts: list[Act]) -> None:
    with fresh_place("disk") as directory, Lakehouse.open(f"{directory}/w", settings=settings) as lake:
        make(lake, "PRIMARY_KEY = (id)" if keyed else "")
        oracle = Oracle(keyed, settings is IN_TASKS)
        for number, act in enumerate([*acts, Ingest(None, "")], 1):
            match act:
                case Upload(key, ids):
                    lines = "".join(f"{one},{number}\n" for one in ids) or "1\n"
                    upload(lake, {key: f"id,n\n{lines}"})
                    oracle.objects[key] = (number, ids)
                case Remove(key):
                    (place(lake) / key).unlink(missing_ok=True)
                    oracle.objects.pop(key, None)
                case Ingest():
                    run(lake, oracle, act)
                case _:
                    damage(lake, oracle, act)
        found = [] if not oracle.shaped else table(lake, "id, n")
        assert found == sorted(row for rows in oracle.rows.values() for row in rows)
        assert set(rejects(lake)) == oracle.bad
        if not oracle.shaped:
            with pytest.raises(FailedPrecondition):
                table(lake, "id")


def run(lake: Lakehouse, oracle: Oracle, act: Ingest) -> None:
    names = () if act.forced is None else (act.forced,)
    if act.forced is not None and act.forced not in oracle.objects:
        with pytest.raises(NotFound):
            ingest(lake, *names)
        return
    ends = []
    for work, other in (
        (partial(ingest, lake, *names), partial(ingest, lake)),
        (partial(oracle_ingest, oracle, act), oracle.other),
    ):
        try:
            work(reach=_reach(act.step, other))
            ends.append("done")
        except Died:
            ends.append("died")
    assert ends[0] == ends[1]


def damage(lake: Lakehouse, oracle: Oracle, act: Backup | PutBack | Lose) -> None:
    """What the ledger lacks is seen, and repaired."""
    root = Path(lake.warehouse.uri)
    ledgers, copy = root / "_lakewarden" / "pipelines", root.parent / "copy"
    ledgers.mkdir(exist_ok=True)
    lacks = False
    match act:
        case Backup():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(ledgers, copy)
            oracle.backup()
        case PutBack() if oracle.kept is not None:
            shutil.rmtree(ledgers)
            shutil.copytree(copy, ledgers)
            lacks = oracle.put_back()
        case Lose(which) if runs := _runs(ledgers):
            runs[which % len(runs)].unlink()
            oracle.lose()
            lacks = True
    seen = [one for one in lake.check() if one.check == "ledger" and not one.passed]
    assert bool(seen) == lacks
    if lacks:
        assert [one.outcome for one in lake.repair() if one.subject == "ledger"] == ["done"]


def _runs(ledgers: Path) -> list[Path]:
    """Those that no lost one covers."""
    found = {path: RunName.parse(path.name) for path in ledgers.glob("*/known/*")}
    lost = max((name.last for name in found.values() if name.is_lost), default=0)
    return sorted((path for path, name in found.items() if name.first > lost), key=lambda path: found[path].first)


def oracle_ingest(oracle: Oracle, act: Ingest, reach: Reach) -> None:
    oracle.hit = lambda step: reach(f"ingest:{step}")
    oracle.ingest(act.forced)


def _reach(step: str, other: Callable[[], object]) -> Reach:
    """Dies there; or lets another ingest run to its end, once."""
    if not step.startswith("meets "):
        return dies(f"ingest:{step}") if step else no_faults
    left = [other]
    return then(f"ingest:{step.removeprefix('meets ')}", lambda: left and left.pop()())
