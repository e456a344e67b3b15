"""Bounds the functions of DuckDB that make large results of small arguments: an interrupt cannot stop a single call.

Each is a macro under the function's own name, which DuckDB finds before its own. The two that format by a pattern take any
number of arguments, which a macro cannot: `check` reads their pattern in the query's tree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakewarden.errors import InvalidArgument, PermissionDenied

CHARACTERS = "repeat", "lpad", "rpad"
ELEMENTS = "range", "generate_series", "list_resize", "array_resize"
STEPS = "levenshtein", "editdist3", "damerau_levenshtein", "jaro_similarity", "jaro_winkler_similarity"
PATTERNS = "format", "printf"

MOST_CHARACTERS = 10_000_000
MOST_ELEMENTS = 1_000_000
MOST_STEPS = 100_000_000
"""Of functions that compare every character with every other."""


_Form = tuple[str, str, str, int]
"""Parameters; the one that the check guards, so that no optimizer computes the call first; the size of the result; the limit."""


def _macro(name: str, *forms: _Form) -> str:
    return f"CREATE MACRO {name} " + ", ".join(_form(name, *form) for form in forms)


def _form(name: str, parameters: str, checked: str, made: str, most: int) -> str:
    names = [each.split()[0] for each in parameters.split(", ")]
    said = f"error('{name}() would make or compare more than {most} values; request fewer')"
    guarded = f"CASE WHEN {made} > {most} THEN {said} ELSE {checked} END"
    arguments = ", ".join(guarded if each == checked else each for each in names)
    return f"({parameters}) AS system.main.{name}({arguments})"


_SECONDS = "abs(epoch(b) - epoch(a)) / nullif(abs(epoch(c)), 0)"
_SERIES = (
    ("a BIGINT", "a", "a", MOST_ELEMENTS),
    ("a BIGINT, b BIGINT", "b", "b::HUGEINT - a", MOST_ELEMENTS),
    ("a BIGINT, b BIGINT, c BIGINT", "b", "abs((b::HUGEINT - a) / nullif(c, 0))", MOST_ELEMENTS),
    ("a TIMESTAMP, b TIMESTAMP, c INTERVAL", "b", _SECONDS, MOST_ELEMENTS),
    ("a TIMESTAMPTZ, b TIMESTAMPTZ, c INTERVAL", "b", _SECONDS, MOST_ELEMENTS),
)
_RESIZE = (("a, n", "n", "n", MOST_ELEMENTS), ("a, n, v", "n", "n", MOST_ELEMENTS))
_PAD = ("s, n, f", "n", "n", MOST_CHARACTERS)
_COMPARE = ("s, t", "t", "len(s) * len(t)", MOST_STEPS)
_COMPARE_ABOVE = ("s, t, least", "t", "len(s) * len(t)", MOST_STEPS)

MACROS = (
    _macro(
        "repeat",
        ("s BLOB, n", "n", "octet_length(s)::HUGEINT * n", MOST_CHARACTERS),
        ("s, n", "n", "len(s)::HUGEINT * n", MOST_CHARACTERS),
    ),
    *(_macro(name, _PAD) for name in CHARACTERS[1:]),
    *(_macro(name, *_SERIES) for name in ELEMENTS[:2]),
    *(_macro(name, *_RESIZE) for name in ELEMENTS[2:]),
    *(_macro(name, _COMPARE) for name in STEPS[:3]),
    *(_macro(name, _COMPARE, _COMPARE_ABOVE) for name in STEPS[3:]),
)

_WIDE = re.compile(r"\{[^}]*(\d{5}|\{)|%[^a-zA-Z%]*(\d{5}|\*)")
"""A width, or a precision, of five digits or of an argument."""


def check_bounded(node: Mapping[str, Any]) -> None:
    """Checks a node of DuckDB's tree of a query.

    Raises:
        PermissionDenied: it calls a function by its catalog, which bypasses these macros.
        InvalidArgument: it formats by a pattern that could make any number of characters.
    """
    if len((node.get("qualified_name") or {}).get("path", ())) > 1 and "function_name" in node:
        raise PermissionDenied(f"function {node['function_name']}() must be called by its name alone")
    if str(node.get("function_name")).lower() not in PATTERNS:
        return
    arguments = node.get("arguments") or [{}]
    literal = arguments[0].get("expression", {}).get("literal") or {}
    if literal.get("kind") != "STRING" or _WIDE.search(literal["text"].replace("{{", "").replace("%%", "")):
        name = node["function_name"]
        raise InvalidArgument(f"{name}() takes a literal pattern, without a width of more than four digits")
