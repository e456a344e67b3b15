"""An ingest that dies before any one of its changes, inside its commits too: what it had taken is taken once, by the next one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from lakewarden import Lakehouse
from lakewarden.base.setting_sections import PipelinesSettings
from lakewarden.base.settings import Settings
from tests.ingest.kills import dies_before_change
from tests.ingest.pipelines.uploads import ingest, make, rejects, table, upload
from tests.maintenance.steps import Died

pytestmark = pytest.mark.slow

IN_TASKS = Settings(pipelines=PipelinesSettings(spark_objects=1))
KEYED = "PRIMARY_KEY = (id)"


@dataclass
class Uploads:
    """A warehouse where, again and again, objects arrive: a new one, a new version of an old one, and one that cannot be read."""

    uri: str
    settings: Settings
    expected: dict[int, str] = field(default_factory=dict)
    bad: int = 0

    def open(self) -> Lakehouse:
        """As another process does."""
        return Lakehouse.open(self.uri, settings=self.settings)

    def arrive(self, number: int) -> None:
        """Every fifth one brings a column."""
        with self.open() as lake:
            more, value = (f",c{number}", ",x") if number % 5 == 4 else ("", "")
            first = f"id,name{more}\n{number},new{value}\n"
            upload(lake, {"old.csv": f"id,name\n0,v{number}\n", f"{number}.csv": first, f"bad{number}.csv": "id,name\n1\n"})
        self.expected |= {0: f"v{number}", number: "new"}
        self.bad += 1

    def ingest(self, changes: int) -> bool:
        """Whether it got to its end; it dies before the change of that number."""
        with pytest.MonkeyPatch.context() as patch, self.open() as lake:
            dies_before_change(patch, changes)
            try:
                ingest(lake)
            except Died:
                return False
        return True

    def check(self) -> None:
        with self.open() as lake:
            ingest(lake)
            assert table(lake) == sorted(self.expected.items())
            assert len(rejects(lake)) == self.bad


@pytest.fixture
def uploads(tmp_path: Path, settings: Settings, options: str) -> Uploads:
    made = Uploads(str(tmp_path / "w"), settings)
    with made.open() as lake:
        make(lake, options)
    return made


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.night)])
@pytest.mark.parametrize(("settings", "options"), [(Settings(), ""), (IN_TASKS, KEYED)], ids=["here", "keyed in tasks"])
def test_an_ingest_dies_before_each_of_its_changes(uploads: Uploads, each: int) -> None:
    """Before each third one, and at night before each."""
    changes, whole = 0, False
    while not whole:
        uploads.arrive(changes + 1)
        whole = uploads.ingest(changes)
        uploads.check()
        changes += each
    assert changes > 20, "entries, data files, commits of both tables, notes in the log and the state"


@pytest.mark.parametrize(("settings", "options"), [(IN_TASKS, ""), (Settings(), KEYED)], ids=["in tasks", "keyed here"])
def test_ten_kills_in_a_row_before_any_change(uploads: Uploads) -> None:
    drawn = Random(1)
    for number in range(1, 11):
        uploads.arrive(number)
        uploads.ingest(drawn.randrange(40))
    uploads.check()
    with uploads.open() as lake:
        assert ingest(lake).batches == 0
        assert not [found for found in lake.check() if not found.passed]
