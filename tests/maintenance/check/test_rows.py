"""What a check finds in a table's rows is the same in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakewarden.maintenance.check.scope import RowFacts, row_facts
from tests.delta.scopes import flush, schema, table_of, target


@pytest.mark.parametrize("at_once", [0, 1000])
def test_repeated_keys_are_counted_and_nulls_named(tmp_path: Path, at_once: int) -> None:
    keyed = schema("id BIGINT NOT NULL", "place TEXT NOT NULL", "n INT", key=("id", "place"))
    scope = target(tmp_path / "t", keyed)
    flush(scope, [{"id": id_, "place": place, "n": 1} for id_ in range(3) for place in ("a", "b")])
    flush(scope, [{"id": 7, "place": "a", "n": 1}], first_seq=10)
    assert row_facts(table_of(scope), scope.schemas, at_once) == RowFacts(0, (), 10)
    DeltaTable(scope.uri).update({"place": "'a'", "_seq": "NULL"}, predicate="place = 'b' and id > 0")
    assert row_facts(table_of(scope), scope.schemas, at_once) == RowFacts(2, (), 10)


def test_a_table_without_rows_or_without_a_key(tmp_path: Path) -> None:
    scope = target(tmp_path / "t")
    flush(scope, [{"id": 1, "name": "x"}])
    flush(scope, [], first_seq=1, deletes=[{"id": 1}])
    assert row_facts(table_of(scope), scope.schemas) == row_facts(table_of(scope), scope.schemas, 0) == RowFacts(0, (), None)
