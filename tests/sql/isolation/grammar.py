"""Random statements of a session, by a seed: most are what people write, some are what they should not get away with."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.sql.isolation.places import LEVELS, Home, Own, Shared

T = TypeVar("T")
NewToken = Callable[[Home], str]
"""A text that nobody could guess, noted as one that lies in this place and nowhere else."""

_TABLES = ("notes", "feed", "mine", "pair", *LEVELS)
"""All of them have the columns `k` and `v`. `mine` is a view of `notes`, `pair` one of `notes` and a private SHARED table."""

_SYSTEM = (
    "users",
    "namespaces",
    "schemas",
    "tables",
    "columns",
    "storages",
    "jobs",
    "manifest",
    "audit_log",
    "stats",
    "settings",
)
_ENGINE = (
    "information_schema.tables",
    "information_schema.columns",
    "pg_catalog.pg_class",
    "duckdb_tables()",
    "duckdb_views()",
    "duckdb_columns()",
    "sqlite_master",
    "temp.notes",
    "memory.main.notes",
    "notes",
    "rows",
    "relations",
    "glob('**')",
    "query('SELECT * FROM app.notes')",
    "query_table('app.notes')",
    "duckdb_secrets()",
    "pragma_table_info('app.notes')",
    '"app.notes"',
    "system.main.duckdb_tables",
)
_SCALARS = (
    "{0}",
    "upper({0})",
    "reverse({0})",
    "{0} || '|' || {1}",
    "left({0}, 30)",
    "md5({0})",
    "concat_ws(',', {0}, {1})",
    "coalesce({0}, {1})",
    "CASE WHEN {0} > {1} THEN {0} ELSE {1} END",
    "[{0}, {1}]",
    "{{'a': {0}, 'b': {1}}}",
    "to_json({0})",
    "CAST({0} AS INTEGER)",
    "TRY_CAST({0} AS INTEGER)",
    "error({0})",
    "strptime({0}, '%Y')",
    "regexp_extract({0}, 'tk.*')",
    "length({0})",
    "json_extract({0}, '$.a')",
    "list_value({0})[1]",
    "current_user",
)
_AGGREGATES = (
    "count(*)",
    "max({0})",
    "min({0})",
    "string_agg({0}, ',')",
    "list({0})",
    "json_group_array({0})",
    "arg_max({0}, {1})",
    "any_value({0})",
    "histogram({0})",
    "list({0} ORDER BY {1})",
    "first({0})",
    "mode({0})",
    "approx_quantile(length({0}), 0.5)",
)
_WINDOWS = (
    "lag({0}) OVER (ORDER BY {1})",
    "first_value({0}) OVER (PARTITION BY {1})",
    "row_number() OVER ()",
    "string_agg({0}, ',') OVER (ORDER BY {1})",
)
_JOINS = ("JOIN", "LEFT JOIN", "FULL JOIN", "CROSS JOIN", "SEMI JOIN", "ANTI JOIN", "POSITIONAL JOIN", ",", "NATURAL JOIN")


@dataclass
class Grammar:
    """One statement's making. `impersonated` are the users whose place it takes, whether it may or not."""

    chance: random.Random
    user: str
    users: Sequence[str]
    warehouse: str
    new_token: NewToken
    impersonated: set[str] = field(default_factory=set)
    files: dict[str, bytes] = field(default_factory=dict)
    _names: int = 0
    _ctes: list[str] = field(default_factory=list)
    _as: str | None = None

    def text(self) -> str:
        statements = [self._any() for _ in range(self._pick((1, 1, 1, 1, 2, 3)))]
        return "; ".join(statements)

    # Small things

    def _pick(self, choices: Sequence[T]) -> T:
        return self.chance.choice(choices)

    def _once_in(self, times: int) -> bool:
        return self.chance.randrange(times) == 0

    def _alias(self) -> str:
        self._names += 1
        name = f"r{self._names}"
        return f'"{name}"' if self._once_in(4) else name

    def _table(self, name: str) -> str:
        if self._once_in(10):
            return name
        return self._pick((f"app.{name}", f"app.{name}", f'app."{name}"', f'"app"."{name}"', f"App.{name.upper()}"))

    @property
    def _owner(self) -> str:
        return self._as or self.user

    # Statements

    def _any(self) -> str:
        kind = self.chance.random()
        if kind < 0.55:
            return self.query(self._pick((1, 1, 2, 3)))
        if kind < 0.7:
            return self._change()
        if kind < 0.88 and self._as is None:
            return self._execute_as()
        return self._other()

    def _execute_as(self) -> str:
        self._as = self._pick([*self.users, *self.users, "nobody"])
        self.impersonated.add(self._as)
        inner = self._any() if self._once_in(2) else self.query(1)
        name, self._as = self._as, None
        return f"EXECUTE AS USER '{name}' ({inner})"

    def _other(self) -> str:
        name = self._table(self._pick(_TABLES))
        return self._pick(
            (
                f"EXPLAIN {self.query(1)}",
                f"EXPLAIN ANALYZE {self.query(1)}",
                f"DESCRIBE {name}",
                f"DESCRIBE {name} HISTORY",
                f"DESCRIBE HISTORY {name}",
                f"SHOW STATS FOR TABLE {name}",
                *("SHOW TABLES", "SHOW STORAGES", "SHOW MANIFEST", "SHOW EXPORT", "SHOW NAMESPACES", "USE app"),
                f"STORAGE FLUSH TABLE {name}",
                f"STORAGE COMPACT TABLE {name}",
                "STORAGE FLUSH ALL IN NAMESPACE app",
                f"RESTORE TABLE {name} TO VERSION AS OF {self._pick((0, 1, 2))}",
                f"OPTIMIZE {name}",
                f"OPTIMIZE {name} ZORDER BY (v)",
                f"VACUUM {name} DRY RUN",
                f"OPTIMIZE {name} ZORDER BY (v) DRY RUN FOR ALL USERS",
                f"RESTORE TABLE {name} TO VERSION AS OF 0 DRY RUN",
                "APPLY PLAN 'PL-000000000000-00000000'",
                f"VACUUM {name} RETAIN 0 HOURS FORCE DRY RUN FOR ALL USERS",
                f"VACUUM {name} RETAIN 0 HOURS FORCE FOR ALL USERS",
                "EXPORT USER DATA",
                "KILL JOB 'FL-1'",
                "STORAGE CHECK local EXTENDED",
                f"SUMMARIZE {name}",
                f"COPY {name} TO '/tmp/x.csv'",
                f"PRAGMA table_info({name})",
                "SELECT * FROM duckdb_settings()",
                f"SUBSCRIBE TO {name}",
                f"SELECT (SELECT v FROM {name}) +",
            )
        )

    def _change(self) -> str:
        """What it writes into a SHARED table is text of its own: what a user copies there on purpose is told to all."""
        if self._once_in(4):
            level = self._pick(LEVELS)
            token, key = self.new_token(Shared(level)), self.new_token(Shared(level))
            return self._pick(
                (
                    f"INSERT INTO {self._table(level)} VALUES ('{key}', '{token}')",
                    f"UPDATE {self._table(level)} SET v = '{token}' WHERE k < 'tk8'",
                    f"DELETE FROM {self._table(level)} WHERE v = '{token}' OR v < 'tk2'",
                )
            )
        home = Own(self._owner)
        token, key = self.new_token(home), self.new_token(home)
        if self._once_in(5):
            return f"INSERT INTO app.feed VALUES ('{key}', '{token}')"
        if self._once_in(5):
            name = f"f{len(self.files)}"
            self.files[name] = token.encode()
            return f"INSERT INTO app.notes (k, photo) VALUES ('{key}', FILE('{name}'))"
        into = "INSERT INTO app.notes"
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"{into} (k, v) VALUES ('{key}', '{token}'), ('a', '{token}') ON CONFLICT DO NOTHING",
            lambda: f"{into} (k, v) VALUES ('{key}', '{token}'), ('a', '{token}')",
            lambda: f"{into} (k, data, raw) VALUES ('{key}', '{{\"a\": \"{token}\"}}', encode('{token}'))",
            lambda: f"{into} (k, n) VALUES ('{key}', '{token}')",
            lambda: f"{into} (k, v) {self.query(2, pair=True)}",
            lambda: f"{into} (k, v) {self.query(1, pair=True)} ON CONFLICT (k) DO UPDATE SET v = excluded.v || '{token}'",
            lambda: f"UPDATE app.notes SET v = '{token}' WHERE k <> {self._operand()}",
            lambda: f"UPDATE app.notes SET v = ({self.query(1, single=True)}) WHERE true",
            lambda: f"UPDATE app.notes SET n = CAST(v AS INTEGER) WHERE {self._condition(['k', 'v'], 1)}",
            lambda: f"DELETE FROM app.notes WHERE k IN ({self.query(1, single=True)})",
            lambda: f"DELETE FROM app.feed WHERE v < '{token}'",
            lambda: f"INSERT OVERWRITE app.notes (k, v) {self.query(1, pair=True)}",
            lambda: f"MERGE INTO app.notes USING ({self.query(1, pair=True)}) AS s {self._merged(token)}",
            lambda: f"MERGE INTO app.notes USING {self._table(self._pick(_TABLES))} AS s {self._merged(token)}",
        )
        return self._pick(forms)()

    def _merged(self, token: str) -> str:
        change = f"WHEN MATCHED THEN UPDATE SET v = s.v || ({self.query(1, single=True)})"
        return f"ON notes.k = s.k {change} WHEN NOT MATCHED AND s.k <> '{token}' THEN INSERT (k, v) VALUES (s.k, s.v)"

    # Queries

    def query(self, depth: int, *, pair: bool = False, single: bool = False) -> str:
        """`pair`: of two columns, k and v; `single`: of one column and at most one row."""
        known = len(self._ctes)
        head = self._with(depth) if depth > 1 and self._once_in(4) else ""
        body = self._body(depth, pair=pair, single=single)
        del self._ctes[known:]
        return head + body

    def _with(self, depth: int) -> str:
        name = self._pick(("notes", "c", '"quoted name"', "app"))
        made = f"{name} AS ({self.query(depth - 1, pair=True)})"
        self._ctes.append(name)
        if self._once_in(4):
            return f"WITH RECURSIVE {made}, n(k, v) AS (SELECT k, v FROM {name} UNION SELECT v, k FROM n WHERE k < 'b') "
        return f"WITH {made} "

    def _body(self, depth: int, *, pair: bool, single: bool) -> str:
        if not single and depth > 1 and self._once_in(5):
            both = self._pick(("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "UNION ALL BY NAME"))
            return f"{self._select(depth - 1, pair=True)} {both} {self._select(depth - 1, pair=True)}"
        return self._select(depth, pair=pair, single=single)

    def _select(self, depth: int, *, pair: bool = False, single: bool = False) -> str:
        source, columns = self._from(depth)
        what = self._projection(columns, depth, pair=pair, single=single)
        where = f" WHERE {self._condition(columns, depth)}" if self._once_in(3) else ""
        if single:
            return f"SELECT {what} FROM {source}{where} LIMIT 1"
        form = (
            ""
            if pair or not self._once_in(8)
            else self._pick((" ORDER BY ALL", " LIMIT 3", " USING SAMPLE 5 ROWS", " QUALIFY true"))
        )
        if not pair and self._once_in(12):
            return f"FROM {source} SELECT {what}{where}"
        return f"SELECT {'DISTINCT ' if self._once_in(8) else ''}{what} FROM {source}{where}{form}"

    def _projection(self, columns: list[str], depth: int, *, pair: bool, single: bool) -> str:
        if pair:
            return f"{self._pick(columns)} AS k, {self._expression(columns, depth)} AS v"
        if single:
            return self._pick((self._expression(columns, depth), self._filled(_AGGREGATES, columns)))
        if self._once_in(3):
            return self._pick(
                ("*", "*", "* EXCLUDE (v)", "COLUMNS(*)", "* REPLACE (upper(v) AS v)", "*, _seq", "count(*), max(v)")
            )
        if self._once_in(4):
            return ", ".join(self._filled(_AGGREGATES, columns) for _ in range(2))
        if self._once_in(6):
            return f"{self._pick(columns)}, {self._filled(_WINDOWS, columns)}"
        return ", ".join(f"{self._expression(columns, depth)} AS c{number}" for number in range(self._pick((1, 2, 3))))

    def _from(self, depth: int) -> tuple[str, list[str]]:
        """A relation or a join of some, and the columns that can be named."""
        source, columns = self._relation(depth)
        for _ in range(self._pick((0, 0, 0, 1, 1, 2)) if depth > 1 else 0):
            join = self._pick(_JOINS)
            other, more = self._relation(depth - 1)
            on = f" ON {self._pick(columns)} {self._pick(('=', '<>', '<'))} {self._pick(more)}"
            source = f"{source} {join} {other}" + ("" if join in (",", "CROSS JOIN", "POSITIONAL JOIN", "NATURAL JOIN") else on)
            columns = columns if join in ("SEMI JOIN", "ANTI JOIN") else columns + more
        return source, columns

    def _relation(self, depth: int) -> tuple[str, list[str]]:
        alias = self._alias()
        own = [f"{alias}.k", f"{alias}.v"]
        kind = self.chance.random()
        if depth > 1 and kind < 0.15:
            return f"{self._pick(('', '', 'LATERAL '))}({self.query(depth - 1, pair=True)}) AS {alias}", own
        if self._ctes and kind < 0.3:
            return f"{self._pick(self._ctes)} AS {alias}", own
        if kind < 0.65:
            return f"{self._table('notes')} AS {alias}", own + ([f"{alias}.data", f"{alias}.photo"] if self._once_in(4) else [])
        if kind < 0.93:
            return f"{self._table(self._pick(_TABLES))} AS {alias}", own
        if kind < 0.96:
            return f"system.{self._pick(_SYSTEM)} AS {alias}", [f"{alias}"]
        if kind < 0.98:
            return f"{self._pick(_ENGINE)} AS {alias}", own
        return f"{self._outside()} AS {alias}", own

    def _outside(self) -> str:
        """Another's files, by their path."""
        scope = f"{self.warehouse}/data/app/notes/{self._pick(self.users)}"
        log = f"{self.warehouse}/_lakewarden/log/**"
        return self._pick(
            (
                f"read_parquet('{scope}/*.parquet')",
                f"'{scope}/*.parquet'",
                f"parquet_metadata('{scope}/*.parquet')",
                f"delta_scan('{scope}')",
                f"read_text('{scope}/_delta_log/*.json')",
                f"read_blob('{log}')",
                f"read_json_auto('{scope}/_delta_log/*.json')",
                f"read_csv('{scope}/manifest.json')",
            )
        )

    def _condition(self, columns: list[str], depth: int) -> str:
        column = self._pick(columns)
        if depth > 0 and self._once_in(3):
            inner = self.query(depth - 1, single=True)
            return self._pick(
                (f"{column} IN ({inner})", f"EXISTS ({inner})", f"{column} <> ANY ({inner})", f"{column} = ({inner})")
            )
        return self._pick(
            (f"{column} {self._pick(('<', '>', '=', '<>', 'LIKE'))} {self._operand()}", f"{column} IS NOT NULL", "true")
        )

    def _operand(self) -> str:
        return self._pick(("'a'", "'tk8'", "'%'", "''", "current_user", f"'{self._pick(self.users)}'", "NULL"))

    def _expression(self, columns: list[str], depth: int) -> str:
        if depth > 0 and self._once_in(8):
            return f"({self.query(depth - 1, single=True)})"
        return self._filled(_SCALARS, columns) if self._once_in(2) else self._pick(columns)

    def _filled(self, forms: Sequence[str], columns: list[str]) -> str:
        return self._pick(forms).format(self._pick(columns), self._pick(columns))
