"""Statements that take memory or time out of proportion to their length: reported ones, and others found by search.

Each passes the bounds of a text.
"""

from __future__ import annotations

from itertools import pairwise


def _doubling(levels: int) -> str:
    """Each CTE joins the one before with itself: planning alone takes 2^levels steps."""
    names = [f"c{level}" for level in range(levels)]
    later = (f"{new} AS (SELECT * FROM {old} a, {old} b)" for old, new in pairwise(names))
    return f"WITH c0 AS (SELECT 1 AS x), {', '.join(later)} SELECT count(*) FROM {names[-1]}"


def _nested(call: str, inner: str, levels: int) -> str:
    return f"SELECT length({call * levels}{inner}{')' * levels})"


_LONG = "repeat('x', 9000000)"
_LIST = "list_transform(range(1000000), lambda x: repeat('y', 10000))"
_ROWS = "range(1000000)"
_SECONDS = "(SELECT unnest(generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2000-01-12', INTERVAL 1 second)))"

HEAVY = {
    # as they were reported
    "replace": "SELECT length(replace(repeat('a', 30000), 'a', repeat('b', 100000)))",
    "concat": f"SELECT length(concat({', '.join([_LONG] * 200)}))",
    "list of texts": f"SELECT length({_LIST}::TEXT)",
    "list_concat": f"SELECT length(list_concat({_LIST}, {_LIST})::TEXT)",
    "list_reduce": f"SELECT length(list_reduce({_LIST}, lambda a, b: a || b))",
    "to_json": f"SELECT length(to_json({_LIST})::TEXT)",
    "CTEs that double": _doubling(40),
    # texts
    "||": f"SELECT length({' || '.join([_LONG] * 100)})",
    "concat_ws": f"SELECT length(concat_ws({_LONG}, {', '.join(['1'] * 300)}))",
    "translate, then replace": f"SELECT length(replace(translate({_LONG}, 'x', 'y'), 'y', repeat('z', 10000)))",
    "regexp_replace": "SELECT length(regexp_replace(repeat('a', 1000000), 'a', repeat('b', 10000), 'g'))",
    "regexp_extract_all": "SELECT sum(len(regexp_extract_all(repeat('ab', 1000000), '(a.?)+?'))) FROM range(10000)",
    "regexp that repeats": "SELECT regexp_matches(repeat('a', 5000000), '((a{1,30}){1,30}|a*b*)*c') FROM range(1000)",
    "string_split": f"SELECT sum(len(string_split({_LONG}, 'x'))) FROM range(1000)",
    "string_agg": f"SELECT length(string_agg(repeat('x', 10000), ',')) FROM {_ROWS}",
    "hex of hex": _nested("hex(", _LONG, 12),
    "base64 of base64": f"SELECT length({'to_base64(encode(' * 10}{_LONG}{'))' * 10})",
    "url_encode": _nested("url_encode(", "repeat('é', 1000000)", 8),
    "levenshtein": "SELECT sum(levenshtein(repeat('ab', 4999), repeat('ba', 4999) || range)) FROM range(100000)",
    "jaccard": f"SELECT sum(jaccard({_LONG}, 'y' || range)) FROM range(100000)",
    "reverse": f"SELECT sum(length(reverse({_LONG} || range))) FROM range(100000)",
    "strip_accents": "SELECT sum(length(strip_accents(repeat('é', 4000000) || range))) FROM range(10000)",
    "sha256": f"SELECT max(sha256({_LONG} || range)) FROM range(100000)",
    "ORDER BY long texts": "SELECT max(s) FROM (SELECT repeat('x', 100000) || range AS s FROM range(99999) ORDER BY s LIMIT 999)",
    "DISTINCT long texts": "SELECT count(DISTINCT repeat('x', 100000) || range) FROM range(100000)",
    "bits": "SELECT sum(bit_count(repeat('10', 4999999)::BIT << r::INT)) FROM range(1000000) t(r)",
    "blobs": "SELECT octet_length(" + " || ".join(["repeat('x'::BLOB, 9000000)"] * 100) + ")",
    # lists, maps and JSON
    "list of lists": "SELECT len(list_transform(range(1000000), lambda x: range(1000)))",
    "flatten": "SELECT len(flatten(list_transform(range(100000), lambda x: range(100000))))",
    "list": "SELECT len(list(range(10000))) FROM range(1000000)",
    "histogram": "SELECT len(map_keys(histogram(range::TEXT || repeat('x', 1000)))) FROM range(10000000)",
    "map": "SELECT cardinality(map_from_entries(list_transform(range(1000000), lambda x: {'k': x, 'v': repeat('v', 10000)})))",
    "list_sort": "SELECT sum(len(list_sort(list_transform(range(1000000), lambda y: hash(y + r))))) FROM range(1000) t(r)",
    "list_distinct": "SELECT sum(len(list_distinct(list_transform(range(1000000), lambda y: y + r)))) FROM range(1000) t(r)",
    "list_zip": "SELECT len(list_zip(" + ", ".join(["range(1000000)"] * 60) + ")::TEXT)",
    "struct": "SELECT count(s) FROM (SELECT "
    + ", ".join(f"repeat('x', 100000) || range AS c{n}" for n in range(50))
    + " FROM range(100000)) s",
    "json_group_array": "SELECT length(json_group_array(repeat('x', 10000) || range)::TEXT) FROM range(1000000)",
    "json_object": "SELECT length(json_object(" + ", ".join(f"'k{n}', {_LONG}" for n in range(60)) + ")::TEXT)",
    "arrays as JSON": "SELECT sum(json_array_length(to_json(range(1000000 + r)))) FROM range(-1000, 0) t(r)",
    "unnest": "SELECT count(*) FROM (SELECT unnest(range(1000000)) a) x, (SELECT unnest(range(1000000)) b) y",
    "unnest twice": "SELECT count(*) FROM (SELECT unnest(list_transform(range(10000), lambda x: range(10000))) u), range(10000)",
    # many rows of few
    "cross joins": f"SELECT count(*) FROM {_ROWS} a, {_ROWS} b, {_ROWS} c WHERE a.range * b.range % 7 = c.range",
    "recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "recursion that doubles": "WITH RECURSIVE r(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM r) SELECT count(*) FROM r",
    "recursion that fans out": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r, range(2)) SELECT count(*) FROM r",
    "window": "SELECT sum(m) FROM (SELECT median(range) OVER (ORDER BY range ROWS BETWEEN 500000 PRECEDING AND 500000 FOLLOWING)"
    f" AS m FROM {_ROWS} UNION ALL SELECT mode(range) OVER (ORDER BY -range ROWS BETWEEN 9999 PRECEDING AND CURRENT ROW)"
    f" FROM {_ROWS})",
    "window of lists": f"SELECT sum(len(l)) FROM (SELECT list(range) OVER (ORDER BY range) AS l FROM {_ROWS})",
    "quantiles": "SELECT quantile_cont(hash(a.range, b.range), 0.5) FROM range(100000) a, range(10000) b",
    "GROUP BY": "SELECT count(*) FROM (SELECT hash(a.range, b.range) h FROM range(10000) a, range(10000) b GROUP BY h)",
    "CUBE": f"SELECT count(*) FROM (SELECT {', '.join(f'range % {n + 2} AS c{n}' for n in range(14))} FROM {_ROWS}) "
    f"GROUP BY CUBE ({', '.join(f'c{n}' for n in range(14))})",
    "GROUPING SETS": "SELECT count(*) FROM (SELECT hash(range) a, hash(range + 1) b FROM range(10000000))"
    " GROUP BY GROUPING SETS (" + ", ".join(["(a)", "(b)", "(a, b)"] * 20) + ")",
    "correlated": f"SELECT sum((SELECT count(*) FROM {_ROWS} b WHERE b.range % (a.range + 1) = 0)) FROM {_ROWS} a",
    "lateral": "SELECT sum(b.y) FROM range(100000) a(x), LATERAL (SELECT a.x + c.range AS y FROM range(100000) c) b",
    "ASOF": "SELECT count(*) FROM (SELECT range + r AS x FROM range(1000), range(10000) t(r)) a ASOF JOIN (SELECT range + r AS y "
    "FROM range(10000), range(1000) t(r)) b ON a.x >= b.y",
    "inequality join": f"SELECT count(*) FROM {_ROWS} a JOIN {_ROWS} b ON a.range < b.range AND a.range * 2 > b.range % 3",
    "many joins": "SELECT count(*) FROM " + ", ".join(f"range(100) r{n}" for n in range(60)),
    "many equal joins": "SELECT count(*) FROM range(2) r0 "
    + " ".join(f"JOIN range(2) r{n} ON r{n}.range = r{n - 1}.range OR r{n}.range = r0.range" for n in range(1, 40)),
    "unions": f"SELECT sum(hash(x)) FROM ({' UNION ALL '.join(['SELECT unnest(range(1000000)) x'] * 400)})",
    "pivot": "SELECT count(*) FROM (PIVOT (SELECT range % 5000 AS k, range AS v FROM range(10000000)) ON k IN ("
    + ", ".join(str(n) for n in range(2000))
    + ") USING list(v))",
    "dates": f"SELECT count(*) FROM {_SECONDS} a, {_SECONDS} b",
    "wide rows": "SELECT " + ", ".join(f"repeat('x', 10000) || range AS c{n}" for n in range(500)) + " FROM range(100000)",
    "a wide CASE": f"SELECT sum(CASE {' '.join(f'WHEN x % 10007 = {n} THEN {n}' for n in range(999))} END) FROM {_ROWS} t(x)",
    "hugeint": "SELECT max(factorial(33) // (1 + range::HUGEINT * r)) FROM range(1000000), range(1000000) t(r)",
    "decimals": "SELECT sum(range::DECIMAL(38, 10) * 1.5 / 7) FROM range(1000000), range(1000000) t(r)",
    "a result without end": f"SELECT a.range, b.range FROM {_ROWS} a, {_ROWS} b",
    "a result of long texts": "SELECT repeat('x', 1000000) || range AS s FROM range(100000)",
    "EXPLAIN": f"EXPLAIN {_doubling(40)}",
}
