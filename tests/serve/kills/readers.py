"""What other readers find when all is flushed: delta-rs and DuckDB in the files, and who folds the changes from the beginning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import duckdb
from deltalake import DeltaTable

from lakewarden.base.scope import Scope, TableName
from lakewarden.client import Lakehouse
from lakewarden.log.position import NOTHING
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


def _delta_rs(lake: Lakehouse, table: str, user: str | None) -> Counter[Row]:
    return _of(delta_table(lake, table, user).to_pyarrow_table().to_pylist())


def _duckdb(lake: Lakehouse, table: str, user: str | None) -> Counter[Row]:
    return _of(duckdb_rows(delta_table(lake, table, user)))


def _folded(lake: Lakehouse, table: str, user: str | None) -> Counter[Row]:
    return _of(folded(changes_of(lake, table, user)))


def delta_table(lake: Lakehouse, table: str, user: str | None) -> DeltaTable:
    return DeltaTable(lake.warehouse.target(lake.warehouse.catalog.read(), Scope(TableName.parse(table), user)).uri)


def duckdb_rows(table: DeltaTable) -> Sequence[Mapping[str, object]]:
    """In the files that the table names."""
    files = table.file_uris()
    with duckdb.connect() as connection:
        return connection.read_parquet(files, union_by_name=True).to_arrow_table().to_pylist() if files else []


def folded(changes: Iterable[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """What is left of the rows by `id`."""
    rows: dict[object, Mapping[str, object]] = {}
    for change in changes:
        if change["_change_type"] == "delete":
            rows.pop(change["id"], None)
        elif change["_change_type"] != "update_preimage":
            rows[change["id"]] = change
    return [*rows.values()]


def changes_of(lake: Lakehouse, table: str, user: str | None) -> Iterator[Mapping[str, object]]:
    """All, from the first."""
    after = NOTHING
    while True:
        found = lake.table(table).changes(user=user, after=after, limit=1000)
        yield from found.rows.to_pylist()
        if found.upto == after:
            return
        after = found.upto


_FOLDED = "the folded changes"
_READERS: Mapping[str, Read] = {"delta-rs": _delta_rs, "DuckDB": _duckdb, _FOLDED: _folded}
