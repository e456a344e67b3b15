"""Statements that may take any memory or time: DuckDB's functions of texts, lists, maps and JSON, and relations that multiply,
put into one another by chance. A seed makes the same statement each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

_OF_TEXT = ("hex", "url_encode", "reverse", "strip_accents", "upper", "sha256", "md5")
_WINDOW = "ORDER BY hash(x) ROWS BETWEEN 99999 PRECEDING AND 99999 FOLLOWING"
_PARTS = ", ".join(f"hash(x) % {number}" for number in range(2, 12))
_NAMES = "abcdefghijklmnopqrstuvwxyz"


@dataclass
class Grammar:
    """Each method makes an expression or a relation of its kind; `depth`: how many more may be inside."""

    random: Random
    _used: int = 0

    def statement(self, depth: int = 4) -> str:
        """A query, or a statement that writes to `app.t (id, body)`, the sender's own table."""
        made: tuple[Callable[[int], str], ...] = (self._query, self._query, self._query, self._insert, self._update, self._delete)
        return self.random.choice(made)(depth)

    def _query(self, depth: int) -> str:
        made = (
            lambda: f"SELECT {self.any(depth)}",
            lambda: f"SELECT length({self.any(depth)}::TEXT)",
            lambda: f"SELECT count(*), max(x) FROM (SELECT {self.any(depth)} AS x FROM {self.relation(depth)} q)",
            lambda: f"SELECT {self._shown()} FROM {self.relation(depth)} q",
        )
        return self.random.choice(made)()

    def _shown(self) -> str:
        return self.random.choice(("count(*)", "*", "sum(hash(x))", "list(x)", "median(x::TEXT)"))

    def _insert(self, depth: int) -> str:
        if self.random.random() < 0.5:
            return f"INSERT INTO app.t VALUES (7, {self.text(depth)}) ON CONFLICT DO NOTHING"
        rows = f"SELECT hash(x) % 1000000, {self.text(depth)} FROM {self.relation(depth)} q"
        return f"INSERT INTO app.t {rows} ON CONFLICT DO NOTHING"

    def _update(self, depth: int) -> str:
        return f"UPDATE app.t SET body = {self.text(depth)} WHERE id = {self.number(depth)} OR body = {self.text(depth)}"

    def _delete(self, depth: int) -> str:
        return f"DELETE FROM app.t WHERE id IN (SELECT hash(x) % 7 + 100 FROM {self.relation(depth)} q)"

    def any(self, depth: int) -> str:
        return self.random.choice((self.text, self.text, self.list, self.json, self.number, self.map))(depth)

    def number(self, depth: int) -> str:
        if depth <= 0:
            return str(self.random.choice((0, 1, 2, 7, 100, 9_999, 100_000, 1_000_000, 9_000_000, 2**31, 10**12)))
        made = (
            lambda: f"length({self.text(depth - 1)})",
            lambda: f"len({self.list(depth - 1)})",
            lambda: f"list_sum(list_transform({self.list(depth - 1)}, lambda {self._name()}: 1))",
            lambda: f"(SELECT count(*) FROM {self.relation(depth - 1)} q)",
            lambda: f"levenshtein({self.text(depth - 1)}, {self.text(depth - 1)})",
            lambda: f"instr({self.text(depth - 1)}, {self.text(depth - 1)})",
            lambda: f"cardinality({self.map(depth - 1)})",
            lambda: f"json_array_length({self.json(depth - 1)})",
            lambda: f"({self.number(depth - 1)} * {self.number(depth - 1)} + 1)",
            lambda: self.number(0),
        )
        return self.random.choice(made)()

    def text(self, depth: int) -> str:
        if depth <= 0:
            word, times = (
                self.random.choice(("x", "ab", "é", "1,", "(a)", "")),
                self.random.choice((1, 10, 1000, 100_000, 5_000_000)),
            )
            return f"repeat('{word}', {times})"
        made = (
            lambda: f"repeat({self.text(depth - 1)}, {self.number(depth - 1)})",
            lambda: f"replace({self.text(depth - 1)}, 'x', {self.text(depth - 1)})",
            lambda: f"({' || '.join(self.text(depth - 1) for _ in range(self.random.randint(2, 5)))})",
            lambda: f"concat_ws({self.text(depth - 1)}, {self.text(0)}, {self.text(0)}, {self.text(0)})",
            lambda: f"{self.random.choice(('lpad', 'rpad'))}({self.text(depth - 1)}, ({self.number(depth - 1)})::INT, 'pq')",
            lambda: f"regexp_replace({self.text(depth - 1)}, '(.)', '\\1\\1\\1', 'g')",
            lambda: f"translate({self.text(depth - 1)}, 'xab', 'éüö')",
            lambda: f"array_to_string({self.list(depth - 1)}, {self.text(depth - 1)})",
            lambda: f"({self.json(depth - 1)})::TEXT",
            lambda: f"({self.list(depth - 1)})::TEXT",
            lambda: f"(SELECT string_agg({self.text(depth - 1)}, ',') FROM {self.relation(depth - 1)} q)",
            lambda: f"{self.random.choice(_OF_TEXT)}({self.text(depth - 1)})",
            lambda: f"to_base64(encode({self.text(depth - 1)}))",
            lambda: f"printf('%s-%s', {self.text(depth - 1)}, {self.text(depth - 1)})",
            lambda: f"list_reduce(list_transform({self.list(depth - 1)}, lambda v: {self.text(0)}), lambda v, w: v || w)",
        )
        return self.random.choice(made)()

    def list(self, depth: int) -> str:
        if depth <= 0:
            return f"range({self.random.choice((0, 3, 1000, 100_000, 1_000_000, 50_000_000))})"
        name = self._name()
        made = (
            lambda: f"range(({self.number(depth - 1)})::BIGINT)",
            lambda: f"generate_series(0, ({self.number(depth - 1)})::BIGINT)",
            lambda: f"list_transform({self.list(depth - 1)}, lambda {name}: {self.any(depth - 1)})",
            lambda: f"list_concat({self.list(depth - 1)}, list_transform({self.list(depth - 1)}, lambda {name}: NULL))",
            lambda: f"flatten(list_transform({self.list(depth - 1)}, lambda {name}: {self.list(depth - 1)}))",
            lambda: f"string_split({self.text(depth - 1)}, {self._separator()})",
            lambda: f"regexp_extract_all({self.text(depth - 1)}, '(a.?)+?|x')",
            lambda: f"list_resize({self.list(depth - 1)}, ({self.number(depth - 1)})::BIGINT)",
            lambda: f"{self.random.choice(('list_sort', 'list_distinct', 'list_reverse'))}({self.list(depth - 1)})",
            lambda: f"list_zip({self.list(depth - 1)}, {self.list(depth - 1)})",
            lambda: f"map_keys({self.map(depth - 1)})",
            lambda: f"(SELECT list({self.text(depth - 1)}) FROM {self.relation(depth - 1)} q)",
            lambda: f"list_filter({self.list(depth - 1)}, lambda {name}: hash({name}, {self.text(0)}) % 2 = 0)",
        )
        return self.random.choice(made)()

    def map(self, depth: int) -> str:
        made = (
            lambda: f"map_from_entries(list_transform({self.list(depth - 1)}, lambda m: {{'k': m, 'v': {self.text(0)}}}))",
            lambda: f"(SELECT histogram(x::TEXT || {self.text(0)}) FROM {self.relation(depth - 1)} q)",
        )
        return self.random.choice(made)()

    def json(self, depth: int) -> str:
        made = (
            lambda: f"to_json({self.list(depth - 1)})",
            lambda: f"json_object('k', {self.text(depth - 1)}, 'l', {self.list(depth - 1)})",
            lambda: f"(SELECT json_group_array({self.text(0)}) FROM {self.relation(depth - 1)} q)",
            lambda: f"json_merge_patch(to_json({{'a': {self.text(0)}}}), to_json({{'b': {self.list(depth - 1)}}}))",
            lambda: f"from_json(to_json({self.list(depth - 1)}), '[\"JSON\"]')",
        )
        return self.random.choice(made)()

    def relation(self, depth: int) -> str:
        """In brackets, with a column `x`."""
        if depth <= 0:
            return f"(SELECT range AS x FROM range({self.random.choice((1, 100, 10_000, 1_000_000, 10**9))}))"
        few = self.random.randint(2, 4)
        made = (
            lambda: f"(SELECT unnest({self.list(depth - 1)}) AS x)",
            lambda: f"(SELECT a.x FROM {self.relation(depth - 1)} a, {self.relation(depth - 1)} b)",
            lambda: f"(SELECT a.x FROM {self.relation(depth - 1)} a JOIN {self.relation(depth - 1)} b ON a.x::TEXT < b.x::TEXT)",
            lambda: f"({' UNION ALL '.join(f'SELECT x::TEXT AS x FROM {self.relation(depth - 1)} u' for _ in range(few))})",
            lambda: "(WITH RECURSIVE r(x, n) AS (SELECT 'x', 0 UNION ALL SELECT x || x, n + 1 FROM r) SELECT x FROM r)",
            lambda: "(WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r, range(2)) SELECT x FROM r)",
            lambda: self._multiplied(self.random.randint(3, 40)),
            lambda: f"(SELECT list(hash(x)) OVER (ORDER BY hash(x)) AS x FROM {self.relation(depth - 1)} w)",
            lambda: f"(SELECT median(hash(x)) OVER ({_WINDOW}) AS x FROM {self.relation(depth - 1)} w)",
            lambda: f"(SELECT DISTINCT x::TEXT || {self.text(0)} AS x FROM {self.relation(depth - 1)} d)",
            lambda: f"(SELECT x FROM {self.relation(depth - 1)} o ORDER BY sha256(x::TEXT || {self.text(0)}))",
            lambda: f"(SELECT count(*) AS x FROM {self.relation(depth - 1)} g GROUP BY CUBE ({_PARTS}))",
            lambda: self._pivoted(self.relation(depth - 1)),
            lambda: f"(SELECT y AS x FROM {self.relation(depth - 1)} a, LATERAL (SELECT hash(a.x, range) y FROM range(99999)))",
        )
        return self.random.choice(made)()

    def _multiplied(self, levels: int) -> str:
        later = ", ".join(f"c{n + 1} AS (SELECT a.x FROM c{n} a, c{n} b)" for n in range(levels))
        return f"(WITH c0 AS (SELECT range AS x FROM range(2)), {later} SELECT x FROM c{levels})"

    def _pivoted(self, relation: str) -> str:
        kinds = ", ".join(str(n) for n in range(self.random.choice((3, 500))))
        pivot = f"PIVOT (SELECT hash(x) % 500 AS k, x::TEXT AS v FROM {relation} p) ON k IN ({kinds}) USING list(v)"
        return f"(SELECT count(*) AS x FROM ({pivot}))"

    def _separator(self) -> str:
        return self.random.choice(("''", "'x'", "','"))

    def _name(self) -> str:
        """Of a lambda's argument, another for each: one inside another must not mean the outer one's."""
        self._used += 1
        return f"{_NAMES[self._used % 26]}{self._used}"
