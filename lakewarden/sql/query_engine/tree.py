"""Finds what a query refers to, from DuckDB's own tree of the exact text that it will run.

`sql.relations` reads sqlglot's tree of the same query: a difference between the two parsers grants nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.errors import BadSyntax, InvalidArgument, LakewardenError, PermissionDenied, Unsupported
from lakewarden.sql.text_bounds import deeper

# The functions of DuckDB that a query may call: those that only compute from their arguments.
#
# The list names what is allowed: a function of a later DuckDB stays out until its effects have been reviewed. Left out are the
# functions that show or change the engine (settings, catalog, sequences, the log, sleep), all that read files, and all that
# take SQL as text.

TABLE_FUNCTIONS = frozenset({"generate_series", "generate_subscripts", "json_each", "json_tree", "range", "repeat", "unnest"})
"""What may stand in FROM."""

SESSION_FUNCTIONS = frozenset({"current_user", "session_user", "snowflake_id", "ulid", "uuid_v7", "generate_uuid"})
"""Ours (`sql.queries.session_functions`): they are replaced by values before DuckDB runs the query."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SCALAR_FUNCTIONS = _words(
    """
    abs acos acosh add age aggregate ago alias any_value apply approx_count_distinct approx_quantile approx_top_k arbitrary
    arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg array_aggr
    array_aggregate array_append array_apply array_cat array_concat array_contains array_cosine_distance
    array_cosine_similarity array_cross_product array_distance array_distinct array_dot_product array_extract array_filter
    array_grade_up array_has array_has_all array_has_any array_indexof array_inner_product array_intersect array_length
    array_negative_dot_product array_negative_inner_product array_pop_back array_pop_front array_position array_prepend
    array_push_back array_push_front array_reduce array_resize array_reverse array_reverse_sort array_select array_slice
    array_sort array_to_json array_to_string array_to_string_comma_default array_transform array_unique array_value
    array_where array_zip ascii asin asinh atan atan2 atanh avg bar base64 bin binom bit_and bit_count bit_length bit_or
    bit_position bit_xor bitstring bitstring_agg bool_and bool_or cardinality cbrt ceil ceiling century char_length
    character_length chr combine concat concat_ws constant_or_null contains corr cos cosh cot count count_if count_star
    countif covar_pop covar_samp cume_dist current_date current_localtime current_localtimestamp damerau_levenshtein
    date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek
    dayofyear days_in_month decade decode degrees dense_rank divide editdist3 element_at encode ends_with entropy enum_first
    enum_last enum_range enum_range_boundary epoch epoch_ms epoch_ns epoch_us era error even exp factorial favg fdiv fill
    filter first first_value flatten floor fmod format format_bytes format_type from_base64 from_binary from_hex from_json
    from_json_strict fsum gamma gcd gen_random_uuid generate_series generate_subscripts geomean geometric_mean get_bit
    get_current_time get_current_timestamp grade_up greatest greatest_common_divisor group_concat hamming hash hex histogram
    histogram_exact hour if ilike_escape instr isfinite isinf isnan isodow isoyear jaccard jaro_similarity
    jaro_winkler_similarity json json_array json_array_length json_contains json_deep_merge json_exists json_extract
    json_extract_path json_extract_path_text json_extract_string json_group_array json_group_object json_group_structure
    json_insert json_keys json_merge_patch json_merge_patch_diff json_normalize json_object json_pretty json_quote
    json_remove json_replace json_set json_strip_nulls json_structure json_transform json_transform_strict json_type
    json_valid json_value julian kahan_sum kurtosis kurtosis_pop lag last last_day last_value lcase lcm lead least
    least_common_multiple left left_grapheme len length length_grapheme levenshtein lgamma like_escape list list_aggr
    list_aggregate list_any_value list_append list_apply list_approx_count_distinct list_avg list_bit_and list_bit_or
    list_bit_xor list_bool_and list_bool_or list_cat list_concat list_contains list_cosine_distance list_cosine_similarity
    list_count list_distance list_distinct list_dot_product list_element list_entropy list_extract list_filter list_first
    list_grade_up list_has list_has_all list_has_any list_histogram list_indexof list_inner_product list_intersect
    list_kurtosis list_kurtosis_pop list_last list_mad list_max list_median list_min list_mode list_negative_dot_product
    list_negative_inner_product list_pack list_position list_prepend list_product list_reduce list_resize list_reverse
    list_reverse_sort list_select list_sem list_skewness list_slice list_sort list_stddev_pop list_stddev_samp
    list_string_agg list_sum list_transform list_unique list_value list_var_pop list_var_samp list_where list_zip listagg ln
    log log10 log2 lower lpad ltrim lttb mad make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns
    make_timestamptz map map_concat map_contains map_contains_entry map_contains_value map_entries map_extract
    map_extract_value map_from_entries map_keys map_values max max_by md5 md5_number md5_number_lower md5_number_upper mean
    median microsecond millennium millisecond min min_by minute mismatches mod mode month monthname multiply nanosecond
    nextafter nfc_normalize normalized_interval not_ilike_escape not_like_escape now nth_value ntile nullif octet_length ord
    overlay parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path path_join percent_rank
    pg_size_pretty pg_typeof pi position pow power prefix printf product quantile quantile_cont quantile_disc quarter
    radians random range rank rank_dense reduce regexp_escape regexp_extract regexp_extract_all regexp_full_match
    regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy remap_struct repeat replace reservoir_quantile reverse right
    right_grapheme round round_even roundbankers row row_number row_to_json rpad rtrim second sem set_bit sha1 sha256 sign
    signbit sin sinh skewness split split_part sqrt starts_with stddev stddev_pop stddev_samp str_split str_split_regex
    strftime string_agg string_split string_split_regex string_to_array strip_accents strlen strpos strptime struct_concat
    struct_contains struct_extract struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack
    struct_position struct_update struct_values substr substring substring_grapheme subtract suffix sum sum_no_overflow
    sumkahan switch tan tanh time_bucket timezone timezone_hour timezone_minute to_base to_base64 to_binary to_centuries
    to_days to_decades to_hex to_hours to_json to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters
    to_seconds to_timestamp to_weeks to_years today transaction_timestamp translate trim trunc try_strptime typeof ucase
    unbin unhex unicode union_extract union_tag union_value unpivot_list upper url_decode url_encode uuid
    uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 var_pop var_samp variance variant_array_length
    variant_contains variant_exists variant_extract variant_extract_string variant_group_array variant_group_object
    variant_keys variant_normalize variant_type variant_typeof vertex_extract wavg week weekday weekofyear weighted_avg xor
    year yearweek
    """
)
"""Scalar functions, aggregates, window functions and macros."""


# Bounds the functions of DuckDB that make large results of small arguments: an interrupt cannot stop a single call.
#
# Each is a macro under the function's own name, which DuckDB finds before its own. The two that format by a pattern take any
# number of arguments, which a macro cannot: `check` reads their pattern in the query's tree.

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


_RELATIONS = frozenset({"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "PIVOT", "EMPTY", "COLUMN_DATA"})
_OUTSIDE = re.compile(
    "(st_)?(read|write|copy|load|install|attach|pragma|duckdb|pg|postgres|mysql|sqlite|http)_.*"
    "|.*_(scan|query|attach|execute|metadata)|getenv|sql_auto_complete|shell|system"
)
"""Names of functions in DuckDB's extensions and its command line that reach outside; none of them is loaded."""

_ENTRIES = {"left", "right", "from_table", "source"}


@dataclass(frozen=True)
class Reach:
    """What a query names. It depends on its text alone."""

    refused: str | None
    """The first function of the tree that no query may call."""
    relations: tuple[str, ...]
    """The relations that the query does not define itself."""
    qualified: tuple[str, ...]
    """Those of `relations` that it names with a catalog or a schema."""

    def check(self, given: frozenset[str]) -> None:
        """Raises PermissionDenied: the query reads a relation that was not given to it."""
        for name in (*self.qualified, *(name for name in self.relations if not {name, name.lower()} & given)):
            raise PermissionDenied(f"relation {name!r} does not belong to this query")


def reach_of(text: str) -> Reach:
    """Reads a query's tree as DuckDB writes it (`json_serialize_sql`).

    Raises:
        PermissionDenied: there is more than one query, or it reads something that is not a relation.
        InvalidArgument: it formats by a pattern that could make any number of characters.
        BadSyntax, Unsupported: DuckDB does not read it as a query.
    """
    try:
        with deeper():
            tree: Mapping[str, Any] = json.loads(text)
    except RecursionError as error:
        raise BadSyntax("the query is nested too deep to be read") from error
    if tree.get("error"):
        raise _refused(tree)
    if len(tree["statements"]) != 1:
        raise PermissionDenied("a statement takes one query")
    nodes = list(_nodes(tree))
    refused = _first_refused(nodes)
    own = {name.lower() for node in nodes for name in _ctes(node)}
    named = [node for node in nodes if node.get("type") == "BASE_TABLE"]
    relations = (str(node["table_name"]) for node in named)
    return Reach(
        refused,
        tuple(name for name in relations if name.lower() not in own),
        tuple(str(node["table_name"]) for node in named if node["catalog_name"] or node["schema_name"]),
    )


def _first_refused(nodes: Iterable[Mapping[str, Any]]) -> str | None:
    for node in nodes:
        for name in _refused_functions(node):
            return name
        check_bounded(node)
    return None


def reaches_outside(function: str) -> bool:
    """Whether a missing function belongs to an extension of DuckDB."""
    return _OUTSIDE.fullmatch(function.lower()) is not None


def _refused(tree: Mapping[str, Any]) -> LakewardenError:
    said = str(tree.get("error_message", "it is not a query"))
    if tree.get("error_type") == "parser":
        return BadSyntax(said)
    return Unsupported(f"only queries run here: {said}")


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _ctes(node: Mapping[str, Any]) -> Iterator[str]:
    for entry in (node.get("cte_map") or {}).get("map", ()):
        yield str(entry["key"])
    if node.get("type") == "RECURSIVE_CTE_NODE":
        yield str(node["cte_name"])


def _refused_functions(node: Mapping[str, Any]) -> Iterator[str]:
    """The functions of a node that no query may call.

    Raises:
        PermissionDenied: it reads something that is not a relation of a query.
    """
    if "function_name" in node and not _is_scalar(name := str(node["function_name"])):
        yield name
    if node.get("type") == "TABLE_FUNCTION" and (name := str(node["function"]["function_name"])).lower() not in TABLE_FUNCTIONS:
        yield name
    for key in _ENTRIES & node.keys():
        entry = node[key]
        is_relation = isinstance(entry, dict) and "alias" in entry and "sample" in entry
        if is_relation and entry["type"] not in _RELATIONS:
            raise PermissionDenied(f"{entry['type']} is not available in queries")


def _is_scalar(name: str) -> bool:
    """Allowed where a value is computed; operators are functions without a letter in their name."""
    lower = name.lower()
    known = lower in SCALAR_FUNCTIONS or lower in TABLE_FUNCTIONS or lower in SESSION_FUNCTIONS
    return known or not any(letter.isalnum() for letter in lower)
