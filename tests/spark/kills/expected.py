"""What the tables of the campaign must hold: DuckDB runs the same statements on tables of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb

Row = tuple[object, ...]

COLUMNS = ("id", "day", "v")


@dataclass
class Expected:
    _duck: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        self._duck.execute("CREATE SCHEMA app")

    def make(self, table: str, key: str) -> None:
        self._duck.execute(f"CREATE TABLE {table} (id BIGINT, day INT, v TEXT {key})")

    def run(self, text: str) -> None:
        """Of what only changes how rows lie, nothing."""
        word, table, *more = text.split()
        if word in ("FLUSH", "OPTIMIZE", "COMPACT"):
            return
        if word == "LOAD":
            text = f"INSERT INTO {table} FROM read_csv('{more[0]}')"
        if text.startswith("INSERT OVERWRITE "):
            text = text.removeprefix("INSERT OVERWRITE ")
            self._duck.execute(f"DELETE FROM {text.split()[0]}")
            text = f"INSERT INTO {text}"
        self._duck.execute(text)

    def begin(self) -> None:
        self._duck.execute("BEGIN")

    def settle(self, *, kept: bool) -> None:
        """What ran since `begin` did happen, or did not."""
        self._duck.execute("COMMIT" if kept else "ROLLBACK")

    def rows(self, table: str) -> list[Row]:
        return sorted(self._duck.execute(f"SELECT {', '.join(COLUMNS)} FROM {table}").fetchall(), key=str)
