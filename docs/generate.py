"""Writes docs/reference/ from the code: `python -m docs.generate`. A test fails when a page is not what this writes."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from docs import house
from docs.decision_index import DECISIONS, index
from lakewarden import errors as family
from lakewarden.base.settings import described_settings
from lakewarden.catalog import access as rights
from lakewarden.catalog import column_types as types
from lakewarden.catalog.access import ROLES
from lakewarden.catalog.column_types import NO_KEY, ColumnType
from lakewarden.catalog.kept_settings import KEPT
from lakewarden.catalog.operations import SPECS
from lakewarden.catalog.options import OPTIONS
from lakewarden.errors import LakewardenError, Terminal, Transient
from lakewarden.ingest.templates.avro_files import AVRO
from lakewarden.ingest.templates.csv_files import CSV
from lakewarden.ingest.templates.documents import DOCUMENTS
from lakewarden.ingest.templates.json_files import JSON
from lakewarden.ingest.templates.options import described_options
from lakewarden.ingest.templates.parquet_files import PARQUET
from lakewarden.ingest.templates.template import Template
from lakewarden.maintenance.options import option_names
from lakewarden.sql.query_engine.tree import (
    CHARACTERS,
    ELEMENTS,
    MOST_CHARACTERS,
    MOST_ELEMENTS,
    MOST_STEPS,
    PATTERNS,
    SCALAR_FUNCTIONS,
    SESSION_FUNCTIONS,
    STEPS,
    TABLE_FUNCTIONS,
)
from lakewarden.sql.results import AffectedRows, Events, ResultRows, StartedJobs, StatementDone
from lakewarden.sql.shapes import BYPASS, NO_BYPASS, SHAPES
from lakewarden.sql.specs.spec import InWarehouse, OwnRule, Right, ScopesRight, TableRight, act_of
from lakewarden.sql.specs.statements import STATEMENTS
from tests.client.k3 import lines as k3
from tests.doors.doors import DOORS, SPARK
from tests.doors.exceptions import EXCEPTIONS
from tests.doors.samples import COLUMN_TYPES, SAMPLES
from tests.ingest.pipelines.states import STATES as PIPELINE_STATES
from tests.lines import Sections
from tests.maintenance.repair.states import STATES
from tests.mutations.listed import Mutation
from tests.mutations.listed import mutations as listed
from tests.tables.dynamic import lines as flip188
from tests.tables.dynamic import published

SHIPPED: tuple[Template[Any], ...] = (CSV, JSON, PARQUET, AVRO, DOCUMENTS)

_REFERENCE = Path(__file__).parent / "reference"


def pages() -> dict[Path, str]:
    """Every generated page with its text."""
    return {
        DECISIONS / "README.md": _page("Decisions", "the pages in docs/decisions", index()),
        _REFERENCE / "access.md": _page("Who may do what", "lakewarden/catalog/access.py", access()),
        _REFERENCE / "configuration.md": _page("Settings", "lakewarden/base/settings.py", configuration()),
        _REFERENCE / "damage.md": _page("When something is lost", "tests/maintenance/repair/states.py", damage()),
        _REFERENCE / "errors.md": _page("Errors", "lakewarden/errors.py", errors()),
        _REFERENCE / "flip188.md": _page("FLIP-188, line by line", "tests/tables/dynamic/lines.py", flip188_lines()),
        _REFERENCE / "functions.md": _page("Functions in queries", "lakewarden/sql/query_engine/tree.py", functions()),
        _REFERENCE / "house.md": _page("The house", "docs/house.py", house.page()),
        _REFERENCE / "k3.md": _page("K3, line by line", "tests/client/k3/lines.py", k3_lines()),
        _REFERENCE / "mutations.md": _page("Mutations", "tests/mutations/", mutations()),
        _REFERENCE / "operations.md": _page("Operations", "lakewarden/catalog/operations.py", operations()),
        _REFERENCE / "values.md": _page("Values, door by door", "tests/doors/", values()),
        _REFERENCE / "published-tests.md": _page("Published tests", "tests/tables/dynamic/published.py", published_tests()),
        _REFERENCE / "statements.md": _page("SQL statements", "lakewarden/sql/specs/statements.py", statements()),
        _REFERENCE / "templates.md": _page("Templates", "lakewarden/ingest/templates/", templates()),
        _REFERENCE / "types.md": _page("Column types", "lakewarden/catalog/column_types.py", column_types()),
        _REFERENCE / "writes.md": _page("How statements write", "lakewarden/sql/shapes.py", writes()),
    }


def access() -> Iterator[str]:
    yield "One gate (`lakewarden/catalog/access.py`) decides by these tables for every door. Whatever the role, the rows of"
    yield "a USER or STREAM table that a session sees are its own user's; another's place is taken by `EXECUTE AS USER` only."
    yield from ("", "## Rows", "")
    yield from _table("table", "act", *ROLES)
    for act in get_args(rights.RowAct):
        yield _row("USER, STREAM: own scope", act, *_cells(rights.OWN_ROWS[act]))
    for level in rights.ACCESS_LEVELS:
        for act in get_args(rights.RowAct):
            yield _row(f"SHARED, ACCESS_LEVEL {level}", act, *_cells(rights.SHARED_ROWS[level][act]))
    for act in get_args(rights.RowAct):
        yield _row("SYSTEM", act, *_cells(rights.SYSTEM_ROWS[act]))
    yield from ("", "## Tables: USER, SHARED and STREAM", "", "No role may do any of these to SYSTEM tables.", "")
    yield from _table("act", *ROLES)
    for define, roles in (*rights.DEFINE.items(), *rights.MAINTAIN.items()):
        yield _row(define, *_cells(roles))
    yield from ("", "## The rest", "")
    yield from _table("act", *ROLES)
    for other, roles in rights.WAREHOUSE.items():
        yield _row(other, *_cells(roles))
    yield from (
        "",
        "## EXECUTE AS USER",
        "",
        "Every role but `anonymous` may act as its own user. SHARED tables are refused inside.",
        "",
    )
    yield from _table("role", *(f"as {role}" for role in ROLES[1:]))
    for role, targets in rights.IMPERSONATE.items():
        yield _row(role, *("yes" if target in targets else "no" for target in ROLES[1:]))
    yield from ("", "## Options", "")
    yield from _table("option", *rights.KINDS)
    for option, spec in OPTIONS.items():
        yield _row(f"`{option}`", *(spec.takes[kind] for kind in rights.KINDS))
    yield from ("", "## Capabilities", "")
    yield from _table("capability", *rights.KINDS)
    for capability, kinds in rights.CAPABILITIES.items():
        yield _row(capability, *("yes" if kind in kinds else "no" for kind in rights.KINDS))


def _cells(roles: rights.Roles) -> Iterator[str]:
    return ("yes" if role in roles else "no" for role in ROLES)


def functions() -> Iterator[str]:
    yield "A query may call these functions of DuckDB, and no other: they only compute from their arguments. Any other"
    yield "is `PERMISSION_DENIED` in every role."
    yield "An interrupt cannot stop a single call, so these are bounded:"
    yield f"{_named(CHARACTERS)} to {MOST_CHARACTERS:,} characters; {_named(ELEMENTS)} (as values) to {MOST_ELEMENTS:,} elements;"
    yield f"{_named(STEPS)} to {MOST_STEPS:,} pairs of characters;"
    yield f"{_named(PATTERNS)} to literal patterns, with widths of at most four digits."
    yield from ("", "## In FROM", "", _listed(TABLE_FUNCTIONS), "", "## Anywhere else", "", _listed(SCALAR_FUNCTIONS))
    yield from ("", "## Lakewarden's own", "", _listed(SESSION_FUNCTIONS))


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _listed(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)), 118, break_long_words=False, break_on_hyphens=False)


def damage() -> Iterator[str]:
    yield "States in which a warehouse can be after the loss of a machine, a mount or an object; what each interface reports;"
    yield "and what is lost after `lakewarden repair` (`repair --restored` after a backup was restored). Tests create each one."
    yield ""
    yield from _table("state", "read", "check", "write", "flush", "repair", "rows lost")
    for state in STATES:
        command = "`repair --restored`" if state.restored else "mount it" if state.item == 3 else "`repair`"
        lost = "not known" if state.lost is None else str(state.lost)
        yield _row(
            state.name, state.read, state.check, state.write, state.flush, command, f"{lost}{state.why and f': {state.why}'}"
        )
    yield ""
    yield "A stream, a consumer or a pipeline goes on behind the repair where all of its rows are back. Where a row is lost or"
    yield "set apart, where a part of the write log is lost, and where the state is older than the data, it stops with"
    yield "`FAILED_PRECONDITION` until it is resumed ([writers that stop](../operations.md#writers-that-stop))."
    yield from ("", "## Pipelines", "", "The same of the ledger of a pipeline, and of its table.", "")
    yield from _table("state", "check", "ingest", "repair", "the next ingest")
    for one in PIPELINE_STATES:
        command = "`repair --restored`" if one.restored else "`repair`"
        yield _row(one.name, "CORRUPT", one.ingest, command, one.then)


def values() -> Iterator[str]:
    yield "A value is stored as it was given, or refused with its place. Tests try every type through every door, and read"
    yield "what is stored, hot and cold, by Lakewarden, delta-rs and DuckDB: the least, the greatest and the longest value, what"
    yield "is empty or no number, and two that are a unit apart. `=`: each is stored as it was given. TIME is its microseconds,"
    yield "and JSON its text. A pipeline's table has the types that its first object shows: a UUID of CSV is the same text, in a"
    yield "TEXT column. What a column does not hold, as a digit too many, is refused by every door."
    yield ""
    yield from _table("door", *COLUMN_TYPES)
    notes: dict[tuple[str, bool], int] = {}
    for door in (*DOORS, SPARK):
        yield _row(door.name, *(_cell(door.name, kind, notes) for kind in COLUMN_TYPES))
    yield ""
    for (reason, null), number in notes.items():
        yield f"{number}. {'NULL' if null else 'Refused'}: {reason}."
    yield from ("", "The values that are tried:", "")
    yield from _table("type", "values")
    for kind in COLUMN_TYPES:
        yield _row(kind, ", ".join(each.label for each in SAMPLES if each.type == kind))


def _cell(door: str, kind: str, notes: dict[tuple[str, bool], int]) -> str:
    """`=`, with what is not stored so and the number of its reason."""
    found = [each for each in EXCEPTIONS if (each.door, each.type) == (door, kind)]
    numbers = [notes.setdefault((each.reason, each.null), len(notes) + 1) for each in found]
    return "=" + "".join(f"; {', '.join(each.labels)}: {number}" for each, number in zip(found, numbers, strict=True))


def configuration() -> Iterator[str]:
    yield "A setting is taken from the first of these that has it: the environment (`LAKEWARDEN_SECTION__KEY`; lists and"
    yield "dictionaries as JSON), `lakewarden.toml` in the working directory, the default. Code that passes its own"
    yield "`Settings(…)` reads neither. Sizes are bytes."
    yield "An unknown key in a section is an error, so a misspelt one does not silently mean the default."
    yield ""
    yield "Some are settings of the whole warehouse, and its catalog keeps them: a new one, and `lakewarden upgrade`, begin with"
    yield "what is found here, and later only `lakewarden settings set` or `ALTER WAREHOUSE SET` change them. These are"
    yield f"{', '.join(f'`{key}`' for key in KEPT)}."
    for name, settings in groupby(described_settings(), key=lambda one: one.section):
        yield from ("", f"## `[{name}]`", "")
        yield from _table("key", "default", "bounds", "what it is")
        for one in settings:
            yield _row(f"`{one.key}`", _default(one.default), one.bounds or "-", one.description)
    yield from ("", "For example, both of these turn off the flush in the calling process:", "")
    yield from ("```toml", "[flush]", "in_process_below = 0", "```", "")
    yield from ("```sh", "export LAKEWARDEN_FLUSH__IN_PROCESS_BELOW=0", "```")


def errors() -> Iterator[str]:
    yield "Every error has a code for programs and a sentence for people. The command line prints both on one line and"
    yield "exits with 1; Python raises the class, from `lakewarden.errors`. Retrying helps only where the table says so."
    yield ""
    yield from _table("code", "class", "when", "try again")
    for error in sorted(_raised(), key=lambda one: (one.code, one.__name__)):
        retry = "may help" if issubclass(error, Transient) else "no"
        yield _row(f"`{error.code}`", f"`{error.__name__}`", _first_line(error), retry)


def writes() -> Iterator[str]:
    yield "The result of a statement that writes has a `strategy`. The first of these lines that fits says which: by the"
    yield "statement, the kind of table, and what the rows come from or what the `WHERE` is on. USER tables are keyed, but for"
    yield "lines of their own. The rules are those of SQL (native), or of the calls of `lake.k3` (k3)."
    yield ""
    yield "- *one key*: each column of the key `=` a constant. *keys*: conditions on columns of the key alone, all or some."
    yield "- *keys of a query*: `(key) IN (SELECT …)`. *other columns*: anything else, or no `WHERE`."
    yield ""
    yield from _table("statement", "table", "form", "rules", "strategy", "how")
    for shape in SHAPES:
        yield _row(
            shape.verb, shape.kind, shape.form, shape.rules, f"`{shape.strategy.wire}`", f"{shape.why}{' (1)' * shape.warns}"
        )
    yield from ("", f"(1) The result warns: {BYPASS}. Of a table without a key: {NO_BYPASS}.")


def k3_lines() -> Iterator[str]:
    yield "What K3 Tables states, a line each. The tests are in `tests/client/k3/`, through `lake.k3`; those of the wire form in"
    yield "`tests/serve/http/`, over HTTP."
    yield from _lines("K3", k3.SECTIONS, k3.line_tests())
    yield from ("", "## What differs from the seed", "")
    yield from _table("the seed says", "here", "why", "test")
    for one in k3.DIFFERENCES:
        yield _row(one.says, one.here, one.why, f"`{one.test}`" if one.test else "")
    yield from ("", "## The calls over HTTP", "")
    yield "Each test runs with a stock HTTP client, whose answers are checked by the OpenAPI document, and with a client that is"
    yield "generated from it."
    yield ""
    yield from _table("call", "tests")
    for call, names in k3.call_tests().items():
        yield _row(f"`{call}`", ", ".join(f"`{name}`" for name in names))


def flip188_lines() -> Iterator[str]:
    yield "What FLIP-188 (built-in dynamic table) states, a line each. The tests are in `tests/tables/dynamic/` and beside it."
    yield from ("", "## What differs", "")
    yield from _table("line", "the seed", "here", "why")
    for each in flip188.DIFFERENCES:
        yield _row(", ".join(f"FL-{number}" for number in each.lines), each.seed, each.here, each.why)
    yield from _lines("FL", flip188.SECTIONS, flip188.line_tests())


def published_tests() -> Iterator[str]:
    yield "What Spark tests of Python data sources, and table-store and Paimon of changelog modes, overwrites, scan modes,"
    yield "buckets and retention: each test with the one here that stands for it, or why there is none. Read at table-store"
    yield "`release-0.1.0`, Paimon `5dacde5`, and Spark between 4.1 and 4.2, without what 4.1 lacks (limits and offsets)."
    files = published.our_tests()
    for suite in published.SUITES:
        yield from ("", f"## {suite.title}", "")
        yield from _table("theirs", "here")
        for row in suite.rows:
            theirs = ", ".join(f"`{name}`" for name in row.theirs.split())
            ours = [f"`{files[name]}::test_{name.partition('::')[2]}`" for name in row.ours.split()]
            yield _row(theirs, "; ".join((*ours, *([row.reason] if row.reason else []))))


def _lines(name: str, sections: Sections, tests: Mapping[int, str]) -> Iterator[str]:
    for section, lines in sections.items():
        yield from ("", f"## {section}", "")
        yield from _table("line", "says", "outcome", "test")
        for line in lines:
            outcome = f"{line.outcome}: {line.reason}" if line.reason else line.outcome
            yield _row(f"{name}-{line.number}", line.says, outcome, f"`{tests[line.number]}`" if line.number in tests else "")


def operations() -> Iterator[str]:
    yield "What each operation takes, and how it can be started. Ids of its jobs begin with its letters. A job that can be queued"
    yield "waits for a runner; one that cannot is run by a person. [Plans](../operations.md#plans) say first what would be done."
    yield ""
    yield from _table("operation", "what it does", "jobs", "tables", "options", "queued", "planned", "right in SQL")
    for name, spec in SPECS.items():
        options = ", ".join(f"`{option}`" for option in sorted(option_names(name)))
        right = (spec.act or "") + (", or write for a scope of one's own" if spec.own else "")
        taken = (spec.tables, options, *_cells_of(spec.queueable, spec.plannable), right)
        yield _row(f"`{name}`", spec.does, f"`{spec.prefix}-…`", *taken)


def statements() -> Iterator[str]:
    yield "Each statement with the right that it takes, beside reading the tables of its queries, and its result. A right is that"
    yield "of [who may do what](access.md). `EXECUTE AS USER 'u' (statement)` runs one as another user. `DRY RUN` returns a"
    yield "[plan](../operations.md#plans) instead; `FOR ALL USERS` means every scope of the table instead of the session's own."
    yield ""
    yield from _table("statement", "what it does", "right", "result")
    for spec in STATEMENTS.values():
        results = " or ".join(_RESULTS[kind] for kind in get_args(spec.result) or (spec.result,))
        yield _row(f"`{spec.syntax}`", spec.does, _right(spec.right), results)


_RESULTS = {
    StatementDone: "a message",
    StartedJobs: "ids of jobs",
    ResultRows: "rows",
    AffectedRows: "a number of rows",
    Events: "events",
}
_RULES: dict[OwnRule, str] = {
    "create": "`create` for its type of table",
    "describe": "`look at what exists`",
    "job": "`flush` or `compact`",
    "pipeline": "`alter` or `drop` its table",
    "plan": "that of the planned operation",
    "read": "`read`",
}


def _right(right: Right) -> str:
    match right:
        case InWarehouse(act) | TableRight(act):
            return f"`{act}`"
        case ScopesRight(operation):
            return f"`write`; `{act_of(operation)}` a table, `FOR ALL USERS`"
        case _:
            return _RULES[right]


def _cells_of(*values: bool) -> tuple[str, ...]:
    return tuple("yes" if value else "no" for value in values)


def column_types() -> Iterator[str]:
    yield "Names are read in any case. `TIME` is microseconds since midnight. The declared name of every column is in"
    yield "the Delta table under the column's metadata `lakewarden.type`."
    yield ""
    yield from _table("type", "also written", "Arrow", "in a primary key")
    for name in (*types._ARROW, "DECIMAL(p,s)"):
        kind = ColumnType.parse("DECIMAL(10,2)" if name.startswith("DECIMAL") else name)
        arrow = "decimal128(p, s)" if name.startswith("DECIMAL") else str(kind.arrow)
        also = ", ".join(alias for alias, meant in types._ALIASES.items() if meant == name)
        yield _row(name, also or "-", f"`{arrow}`", "no" if name in NO_KEY else "yes")


def mutations() -> Iterator[str]:
    every = listed()
    yield f"{len(every)} small faults. `make mutate` puts each into a copy of the code, runs its tests, and fails if none of them"
    yield "fails ([why](../decisions/0132-mutations-by-place.md))."
    for room, group in groupby(every, key=lambda one: one.module.split(".")[1]):
        yield from ("", f"## {room}", "")
        yield from _table("rule", "fault", "in", "seen by")
        for one in group:
            place = f"`{one.module.partition('.')[2]}` `{one.at}`"
            yield _row(one.rule, one.name, place, f"none: {one.excused}" if one.excused else _seen_by(one))


def _seen_by(mutation: Mutation) -> str:
    return ", ".join(f"`{test.removeprefix('tests/')}`" for test in mutation.tests)


def templates() -> Iterator[str]:
    yield "Options are given in `WITH (…)`, by name in any case. A text may stand for a number, a truth value, or a list of one."
    for template in SHIPPED:
        yield from ("", f"## {template.name}", "", inspect.getdoc(inspect.getmodule(template.read)) or "", "")
        extensions = ", ".join(f"`.{each}`" for each in template.accepted_extensions)
        yield f"Extensions: {extensions}."
        if options := list(described_options(template)):
            yield ""
            yield from _table("option", "default", "what it does")
            for option in options:
                yield _row(f"`{option.name}`", _default(option.default), option.description)


def _page(title: str, source: str, lines: Iterator[str]) -> str:
    note = f"<!-- Written from {source} by `make docs`; edit there. -->"
    return "\n".join([f"# {title}", "", note, "", *lines, ""])


def _table(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row(*("---" for _ in names))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0:
        return f"`{value}` ({value >> 20} MiB)"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _raised() -> list[type[LakewardenError]]:
    """The classes of the module that say what happened; the three above them only sort."""
    classes = [one for one in vars(family).values() if isinstance(one, type) and issubclass(one, LakewardenError)]
    return [one for one in classes if one not in (LakewardenError, Terminal, Transient)]


def _first_line(documented: type) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0]


def main() -> None:
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
