"""Rounds of work, cut, remount and inspection on one warehouse after another, each round in processes of its own.

    python -m tests.crash --kind ext4-ordered --seed 7 --cuts 20

prints a line of JSON for each cut. A seed makes its disk, its warehouse and its rounds; a violation ends its warehouse.
This process has imported the library and never used it: what it forks starts as fresh as a new interpreter, in no time.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import pickle
import pkgutil
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import NoReturn, TypeVar, cast

import lakewarden
from tests.crash.disk import Disk, formatted
from tests.crash.inspection import Inspection, glance, inspect
from tests.crash.journal import Journal, Story, read_story
from tests.crash.perform import open_lake, prepare
from tests.crash.power import Deaf, Power, draw_moment
from tests.crash.steps import Expected
from tests.crash.workload import work

T = TypeVar("T")

ROUNDS = 8
"""Cuts of one warehouse, one after the other."""

_NOT_USED = ("lakewarden.cli", "lakewarden.client.demo", "lakewarden.spark", "lakewarden.sql")

_THOROUGH = 0.7
"""Behind the others the next round works on what the cut left."""

_SECONDS = 180
"""No round takes that long on the slowest machine: a child that does hangs, says where, and is killed."""


@dataclass(frozen=True)
class Cut:
    """One cut and what was found behind it."""

    kind: str
    seed: int
    round: int
    during: tuple[str, ...] = ()
    done: dict[str, int] = field(default_factory=dict)
    event: int = 0
    wrong: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    seconds: float = 0.0
    library: str = str(Path(lakewarden.__file__).parent)

    def line(self) -> str:
        return json.dumps(asdict(self))


def import_library() -> None:
    """All that a call would import when it first needs it: every fork would, else."""
    for module in pkgutil.walk_packages(lakewarden.__path__, "lakewarden."):
        if not module.name.startswith(_NOT_USED):
            importlib.import_module(module.name)
    for arrows in ("pandas", "pyarrow.dataset", "pyarrow.acero"):
        importlib.import_module(arrows)


class ChildFailed(Exception):
    """A process of the harness itself did not end well."""


@dataclass(frozen=True)
class Campaign:
    """`room`: where disks are made. `keep`: where the state and the journal of a violation are copied to."""

    kind: str
    room: Path
    keep: Path | None = None
    deaf: Deaf = ""


def cuts_of(campaign: Campaign, seed: int, cuts: int) -> Iterator[Cut]:
    """So many cuts: of a first disk with this seed, and of further ones with the next."""
    import_library()
    made = 0
    while made < cuts:
        for one in _one_disk(campaign, seed, min(ROUNDS, cuts - made)):
            made += 1
            yield one
        seed += 1


def _one_disk(campaign: Campaign, seed: int, rounds: int) -> Iterator[Cut]:
    below = tempfile.TemporaryDirectory(dir=campaign.room, prefix="lakewarden-crash-")
    with below as place, formatted(campaign.kind, Path(place)) as disk:
        uri = str(disk.mounted / "lake")
        expected = Expected(in_child(lambda: prepare(uri, Random(seed))))
        disk.remount()
        last = 0
        for number in range(rounds):
            began = time.monotonic()
            rng = Random(f"{seed}/{number}")
            journal = Path(place) / f"journal-{number}"
            story = _work(campaign, disk, uri, expected, last + 1, journal, rng)
            disk.remount()
            before = _kept(campaign.keep, disk, seed, number)
            inspection = _inspect(uri, story, rng, thorough=number == rounds - 1 or rng.random() < _THOROUGH)
            wrong = (*story.wrong, *inspection.wrong)
            yield Cut(campaign.kind, seed, number, tuple(story.during), story.done, story.event, wrong,
                      tuple(inspection.repaired), round(time.monotonic() - began, 2))  # fmt: skip
            if wrong:
                _save(before, journal)
                return
            if before is not None:
                before.unlink()
            expected = replace(story.expected, scopes=inspection.scopes, tables=inspection.tables)
            last = story.last


def _work(campaign: Campaign, disk: Disk, uri: str, expected: Expected, first: int, path: Path, rng: Random) -> Story:
    def child() -> None:
        journal = Journal(path)
        moment = draw_moment(rng)
        power = Power(str(disk.mounted), uri, moment, journal, Random(rng.random()), deaf=campaign.deaf)
        work(uri, expected.copy(), first, power, journal, rng)

    failed = []
    try:
        in_child(child)
    except ChildFailed as error:
        failed.append(str(error))
    story = read_story(path, expected)
    return replace(story, wrong=story.wrong + failed)


def _inspect(uri: str, story: Story, rng: Random, *, thorough: bool) -> Inspection:
    half_done = any(step.finishes for step in story.open.values())

    def child() -> Inspection:
        with open_lake(uri, rng) as lake:
            if not (thorough or half_done):
                return glance(lake, story.expected, story.open)
            return inspect(lake, Path(uri), story.expected, story.open)

    try:
        return in_child(child)
    except ChildFailed as error:
        return Inspection([str(error)])


def _kept(keep: Path | None, disk: Disk, seed: int, number: int) -> Path | None:
    if keep is None:
        return None
    keep.mkdir(parents=True, exist_ok=True)
    return Path(shutil.make_archive(str(keep / f"{disk.image.parent.name}-{seed}-{number}"), "tar", disk.mounted))


def _save(before: Path | None, journal: Path) -> None:
    if before is not None:
        shutil.copy(journal, before.with_suffix(".journal"))


def in_child(work: Callable[[], T]) -> T:
    """Runs it in a fork of this process, and returns what it returned.

    Raises:
        ChildFailed: it raised, was killed, or took too long; says how.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _be_child(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(process, 0)
    answer = pickle.loads(said) if said else "it said nothing"
    if status:
        raise ChildFailed(f"a process ended with {os.waitstatus_to_exitcode(status)}: {answer}")
    return cast(T, answer)


def _be_child(work: Callable[[], object], answers: int) -> NoReturn:
    """Never returns: what the parent has still to clean up is not for its fork to do."""
    signal.alarm(_SECONDS)
    faulthandler.dump_traceback_later(_SECONDS - 5)
    status = 1
    try:
        try:
            answer = work()
            status = 0
        except BaseException:  # noqa: BLE001  # the parent says it
            answer = traceback.format_exc()
        with os.fdopen(answers, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(status)
