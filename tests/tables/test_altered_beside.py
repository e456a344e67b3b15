"""A read beside an ALTER gives what is there, or says which column is no more: nothing is corrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from lakewarden import Lakehouse
from lakewarden.catalog.model import Catalog
from lakewarden.catalog.store import CatalogStore
from lakewarden.errors import InvalidArgument, SchemaChanged
from lakewarden.sql.results import AffectedRows, ResultRows

TABLE = "chat.words"
ALTERS = {
    "add": ["ADD COLUMN more INT"],
    "drop": ["DROP COLUMN text"],
    "rename": ["RENAME COLUMN text TO words"],
    "swap": ["ADD COLUMN other TEXT", "DROP COLUMN text", "RENAME COLUMN other TO text"],
}
READS: dict[str, Callable[[Lakehouse], int]] = {
    "strong": lambda lake: lake.table(TABLE).read().num_rows,
    "eventual": lambda lake: lake.table(TABLE).read(freshness="eventual").num_rows,
    "count": lambda lake: int(_rows(lake, f"SELECT count(*) AS n FROM {TABLE}")[0]["n"]),
    "look-up": lambda lake: 3 + len(_rows(lake, f"SELECT id FROM {TABLE} WHERE id = 2")),
    "join": lambda lake: len(_rows(lake, f"SELECT a.id, b.id FROM {TABLE} a JOIN {TABLE} b USING (id)")),
    "a column": lambda lake: len(_rows(lake, f"SELECT text FROM {TABLE}")),
    "copy": lambda lake: _written(lake, f"INSERT INTO {TABLE} (id) SELECT id + 100 FROM {TABLE}"),
    "copy of all": lambda lake: _written(lake, f"INSERT INTO {TABLE} SELECT id + 100, text FROM {TABLE}"),
}


def _rows(lake: Lakehouse, sql: str) -> list[dict[str, int]]:
    (found,) = lake.sql(sql)
    assert isinstance(found, ResultRows)
    return cast("list[dict[str, int]]", found.table.to_pylist())


def _written(lake: Lakehouse, sql: str) -> int:
    (found,) = lake.sql(sql)
    assert isinstance(found, AffectedRows)
    return found.rows


@pytest.fixture(params=["keyed", "keyless"])
def lake(warehouse_uri: str, request: pytest.FixtureRequest) -> Iterator[Lakehouse]:
    key = "PRIMARY KEY" if request.param == "keyed" else ""
    with Lakehouse.open(warehouse_uri) as lake:
        lake.create_namespace("chat")
        lake.sql(f"CREATE SHARED TABLE {TABLE} (id BIGINT {key}, text TEXT)")
        for id_ in range(3):
            lake.sql(f"INSERT INTO {TABLE} VALUES ({id_}, 'word')")
        lake.flush()
        yield lake


@pytest.mark.covering(2)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("alter", ALTERS.values(), ids=ALTERS)
@pytest.mark.parametrize("behind", [1, 2, pytest.param(3, marks=pytest.mark.night)])
def test_a_read(
    lake: Lakehouse, read: Callable[[Lakehouse], int], alter: list[str], behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process alters, writes and rewrites right behind a look at the catalog."""
    looks, read_catalog = 0, CatalogStore.read
    with Lakehouse.open(lake.warehouse.uri) as other:

        def look(store: CatalogStore) -> Catalog:
            nonlocal looks
            found = read_catalog(store)
            if store is lake.warehouse.catalog:
                looks += 1
                if looks == behind:
                    for clause in alter:
                        other.sql(f"ALTER TABLE {TABLE} {clause}")
                    other.sql(f"INSERT INTO {TABLE} (id) VALUES (8)")
                    other.flush()
                    other.optimize(TABLE, zorder=["id"])
            return found

        monkeypatch.setattr(CatalogStore, "read", look)
        try:
            found: int | str = read(lake)
        except (SchemaChanged, InvalidArgument) as error:
            found = error.message
    assert found in (3, 4) or (isinstance(found, str) and "repair" not in found)
    if alter == ALTERS["add"]:
        assert found in (3, 4) or "2 values are given for 3 columns" in str(found)
