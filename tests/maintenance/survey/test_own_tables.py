"""A survey of a warehouse of ours: nothing that we do to its tables is damage."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakewarden
from lakewarden import Lakehouse
from tests.delta.hand_written import HandWritten, add

pytestmark = pytest.mark.disk


@pytest.mark.slow
def test_what_we_do_to_a_table_damages_none(tmp_path: Path) -> None:
    place, other = tmp_path / "w", tmp_path / "other"
    other.mkdir()

    def sound() -> int:
        found = list(lakewarden.survey(str(place), str(other)))
        assert [(each.path, each.damage) for each in found if each.verdict != "sound"] == []
        return len(found)

    with Lakehouse.open(str(place)) as lake:
        lake.sql("CREATE NAMESPACE app; CREATE TABLE app.t (id BIGINT PRIMARY KEY, v TEXT) WITH (TYPE = 'USER')")
        lake.sql(f"CREATE STORAGE far TYPE filesystem BASE_DIRECTORY '{other}'")

        def flushed(first: int, times: int) -> None:
            for number in range(first, first + times):
                lake.table("app.t").write([{"user": f"u{user}", "id": number, "v": "a"} for user in range(3)], user_column="user")
                lake.flush()

        flushed(0, 3)
        lake.erase("u2")
        assert sound() == 3, "the erased user's fence among them"
        (fence,) = (each for each in lakewarden.survey(str(place)) if each.path.endswith("u2"))
        assert (fence.files, fence.version, fence.oldest_version) == (0, 3, 3)
        flushed(3, 10)  # a checkpoint above the fence
        lake.sql("ALTER TABLE app.t ADD COLUMN w DOUBLE")
        lake.restore("app.t", user="u1", version=1, dry_run=False)
        assert sound() == 3
        lake.move("app.t", "far")
        assert sound() == 6, "at the old place, too"
        lake.erase("u1")
        lake.sql("DROP TABLE app.t")
        assert sound() == 6


@pytest.mark.parametrize("emptied", [(0,), (1,), (0, 1)])
def test_commits_that_another_emptied_are_torn(tmp_path: Path, emptied: tuple[int, ...]) -> None:
    table = HandWritten(tmp_path / "t")
    table.begin(table.file("1.parquet", [1]))
    for version in (1, 2):
        table.commit(version, add(f"{version}.parquet"))
    for version in emptied:
        (table.log / f"{version:020d}.json").write_bytes(b"")
    (found,) = lakewarden.survey(str(tmp_path))
    assert "torn-commit" in {each.kind for each in found.damage}
