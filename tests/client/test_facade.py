"""Each call of the client stands once: `Lakehouse` has it, and the noun that it belongs to has the same function."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest

from lakewarden import Lakehouse
from lakewarden.client.plans import Jobs
from tests.fixtures.lakes import make_notes, notes

_NOUNS = {"catalog", "k3", "maintenance", "jobs", "loads", "pipelines", "privacy", "subscriptions", "sessions", "topics"}
_NESTED = {"catalog.storages", "catalog.tags", "maintenance.status", "maintenance.plans"}
_OWN = {"open", "close", "noted"}
_CALLS = {name: call for name, call in inspect.getmembers(Lakehouse, inspect.isfunction) if not name.startswith("_")}
_SHORTER = {
    "catalog.storages.create": "create_storage",
    "catalog.storages.alter": "alter_storage",
    "catalog.storages.adopt": "adopt_storage",
    "catalog.storages.drop": "drop_storage",
    "catalog.storages.all": "storages",
    "catalog.tags.add": "tag",
    "catalog.tags.of": "tags",
    "catalog.tags.drop": "drop_tag",
    "maintenance.status.scopes": "status",
    "maintenance.status.storages": "health",
    "maintenance.plans.due": "plan_due",
    "privacy.certificates": "erasures",
    "sessions.open": "session",
    "subscriptions.kill": "kill_live_query",
    "jobs.waiting": "waiting_jobs",
    "jobs.run": "run_jobs",
    "jobs.kill": "kill_job",
}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lakehouse]:
    with Lakehouse.open(str(tmp_path / "lake")) as opened:
        yield opened


def test_every_public_name_is_a_noun_or_a_call() -> None:
    public = {name for name in dir(Lakehouse) if not name.startswith("_")}
    assert public - _CALLS.keys() | _OWN == _NOUNS | _OWN | {"feeds"}


def test_every_call_is_the_same_function_at_its_noun(lake: Lakehouse) -> None:
    nouns = [attrgetter(path)(lake) for path in sorted(_NOUNS - {"k3"} | _NESTED)]
    of_nouns = [call for noun in nouns for _, call in inspect.getmembers(type(noun), inspect.isfunction)]
    assert {name for name, call in _CALLS.items() if call not in of_nouns} == _OWN - {"open"}


@pytest.mark.parametrize("path", sorted(_SHORTER))
def test_a_noun_keeps_its_shorter_names(lake: Lakehouse, path: str) -> None:
    assert attrgetter(path)(lake).__func__ is _CALLS[_SHORTER[path]]


def test_every_call_says_what_it_does() -> None:
    assert [name for name, call in _CALLS.items() if not inspect.getdoc(call)] == []


def test_the_noun_of_jobs_lists_them_when_it_is_called(lake: Lakehouse) -> None:
    make_notes(lake).write(notes({1: "a"}), user="ann")
    first, second = lake.jobs.enqueue("flush"), lake.jobs.enqueue("compact")
    assert isinstance(lake.jobs, Jobs)
    assert {job.job_id for job in lake.jobs()} == {first.job_id, second.job_id}
    assert [job.job_id for job in lake.jobs(1)] == [job.job_id for job in lake.jobs(limit=1)] == [lake.jobs()[0].job_id]


@pytest.mark.parametrize("call", ["relay", "consume"])
def test_an_option_that_is_misspelt_is_refused(lake: Lakehouse, call: str) -> None:
    with pytest.raises(TypeError, match="there is no option 'broker'; the options are brokers, client"):
        getattr(lake, call)("n.t", "topic", broker="localhost:9092")
