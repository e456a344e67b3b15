"""What other readers find when all is flushed: delta-rs and DuckDB in the files, and who folds the changes from the beginning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import duckdb
from deltalake import DeltaTable

from lakewarden.lakehouse import Lakehouse
from lakewarden.log.position import NOTHING
from lakewarden.scope import Scope, TableName
from tests.serve.http.live.follower import LAST
from tests.serve.kills.load import KEYED, PLAIN, Client
from tests.serve.kills.rows import Row, keyed_rows, plain_rows

Read = Callable[[Lakehouse, str, str | None], Counter[Row]]


def disagreeing(lake: Lakehouse, clients: Sequence[Client]) -> dict[str, str]:
    """By table and reader, how it differs from the strong read."""
    scopes: list[tuple[str, str | None]] = [*((KEYED, client.user) for client in clients), (PLAIN, None)]
    return {
        f"{name} of {table}[{user}]": said
        for table, user in scopes
        for name, read in _READERS.items()
        if not (table == PLAIN and name == _FOLDED)
        if (said := _differs(_strong(lake, user), read(lake, table, user)))
    }


def _strong(lake: Lakehouse, user: str | None) -> Counter[Row]:
    return Counter(plain_rows(lake) if user is None else keyed_rows(lake, user))


def _differs(there: Counter[Row], found: Counter[Row]) -> str:
    return "" if there == found else f"{sorted((found - there).items())} too many, {sorted((there - found).items())} missing"


def _of(rows: Sequence[Mapping[str, object]]) -> Counter[Row]:
    return Counter((row["id"], row.get("v")) for row in rows if row["id"] != LAST)


def _delta(lake: Lakehouse, table: str, user: str | None) -> DeltaTable:
    target = lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName.parse(table), user))
    return DeltaTable(target.uri)


def _delta_rs(lake: Lakehouse, table: str, user: str | None) -> Counter[Row]:
    return _of(_delta(lake, table, user).to_pyarrow_table().to_pylist())


def _duckdb(lake: Lakehouse, table: str, user: str | None) -> Counter[Row]:
    """In the files that the table names."""
    files = _delta(lake, table, user).file_uris()
    with duckdb.connect() as connection:
        return _of(connection.read_parquet(files, union_by_name=True).to_arrow_table().to_pylist()) if files else Counter()


def _folded(lake: Lakehouse, table: str, user: str | None) -> Counter[Row]:
    rows: dict[object, Mapping[str, object]] = {}
    for change in _changes(lake, table, user):
        if change["_change_type"] == "delete":
            rows.pop(change["id"], None)
        elif change["_change_type"] != "update_preimage":
            rows[change["id"]] = change
    return _of([*rows.values()])


def _changes(lake: Lakehouse, table: str, user: str | None) -> Iterator[Mapping[str, object]]:
    after = NOTHING
    while True:
        found = lake.table(table).changes(user=user, after=after, limit=1000)
        yield from found.rows.to_pylist()
        if found.upto == after:
            return
        after = found.upto


_FOLDED = "the folded changes"
_READERS: Mapping[str, Read] = {"delta-rs": _delta_rs, "DuckDB": _duckdb, _FOLDED: _folded}
