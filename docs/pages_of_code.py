"""The pages that say what the code says: rights, settings, errors, statements, operations, types."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from itertools import groupby
from typing import Any, get_args, get_type_hints

import msgspec

from docs.markdown import default, row, table
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
from lakewarden.ingest.templates.parquet_files import PARQUET
from lakewarden.ingest.templates.template import Template
from lakewarden.maintenance.options import option_names
from lakewarden.sql.parse import statement_specs
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
from lakewarden.sql.writing.shapes import BYPASS, NO_BYPASS, SHAPES

SHIPPED: tuple[Template[Any], ...] = (CSV, JSON, PARQUET, AVRO, DOCUMENTS)


def access() -> Iterator[str]:
    yield "One gate (`lakewarden/catalog/access.py`) decides by these tables for every door. Whatever the role, the rows of"
    yield "a USER or STREAM table that a session sees are its own user's; another's place is taken by `EXECUTE AS USER` only."
    yield from ("", "## Rows", "")
    yield from table("table", "act", *ROLES)
    for act in get_args(rights.RowAct):
        yield row("USER, STREAM: own scope", act, *_cells(rights.OWN_ROWS[act]))
    for level in rights.ACCESS_LEVELS:
        for act in get_args(rights.RowAct):
            yield row(f"SHARED, ACCESS_LEVEL {level}", act, *_cells(rights.SHARED_ROWS[level][act]))
    for act in get_args(rights.RowAct):
        yield row("SYSTEM", act, *_cells(rights.SYSTEM_ROWS[act]))
    yield from ("", "## Tables: USER, SHARED and STREAM", "", "No role may do any of these to SYSTEM tables.", "")
    yield from table("act", *ROLES)
    for define, roles in (*rights.DEFINE.items(), *rights.MAINTAIN.items()):
        yield row(define, *_cells(roles))
    yield from ("", "## The rest", "")
    yield from table("act", *ROLES)
    for other, roles in rights.WAREHOUSE.items():
        yield row(other, *_cells(roles))
    yield from (
        "",
        "## EXECUTE AS USER",
        "",
        "Every role but `anonymous` may act as its own user. SHARED tables are refused inside.",
        "",
    )
    yield from table("role", *(f"as {role}" for role in ROLES[1:]))
    for role, targets in rights.IMPERSONATE.items():
        yield row(role, *("yes" if target in targets else "no" for target in ROLES[1:]))
    yield from ("", "## Options", "")
    yield from table("option", *rights.KINDS)
    for option, spec in OPTIONS.items():
        yield row(f"`{option}`", *(spec.takes[kind] for kind in rights.KINDS))
    yield from ("", "## Capabilities", "")
    yield from table("capability", *rights.KINDS)
    for capability, kinds in rights.CAPABILITIES.items():
        yield row(capability, *("yes" if kind in kinds else "no" for kind in rights.KINDS))


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
        yield from table("key", "default", "bounds", "what it is")
        for one in settings:
            yield row(f"`{one.key}`", default(one.default), one.bounds or "-", one.description)
    yield from ("", "For example, both of these turn off the flush in the calling process:", "")
    yield from ("```toml", "[flush]", "in_process_below = 0", "```", "")
    yield from ("```sh", "export LAKEWARDEN_FLUSH__IN_PROCESS_BELOW=0", "```")


def errors() -> Iterator[str]:
    yield "Every error has a code for programs and a sentence for people. The command line prints both on one line and"
    yield "exits with 1; Python raises the class, from `lakewarden.errors`. Retrying helps only where the table says so."
    yield ""
    yield from table("code", "class", "when", "try again")
    for error in sorted(_raised(), key=lambda one: (one.code, one.__name__)):
        retry = "may help" if issubclass(error, Transient) else "no"
        yield row(f"`{error.code}`", f"`{error.__name__}`", _first_line(error), retry)


def writes() -> Iterator[str]:
    yield "The result of a statement that writes has a `strategy`. The first of these lines that fits says which: by the"
    yield "statement, the kind of table, and what the rows come from or what the `WHERE` is on. USER tables are keyed, but for"
    yield "lines of their own. The rules are those of SQL (native), or of the calls of `lake.k3` (k3)."
    yield ""
    yield "- *one key*: each column of the key `=` a constant. *keys*: conditions on columns of the key alone, all or some."
    yield "- *keys of a query*: `(key) IN (SELECT …)`. *other columns*: anything else, or no `WHERE`."
    yield ""
    yield from table("statement", "table", "form", "rules", "strategy", "how")
    for shape in SHAPES:
        yield row(
            shape.verb, shape.kind, shape.form, shape.rules, f"`{shape.strategy.wire}`", f"{shape.why}{' (1)' * shape.warns}"
        )
    yield from ("", f"(1) The result warns: {BYPASS}. Of a table without a key: {NO_BYPASS}.")


def operations() -> Iterator[str]:
    yield "What each operation takes, and how it can be started. Ids of its jobs begin with its letters. A job that can be queued"
    yield "waits for a runner; one that cannot is run by a person. [Plans](../operations.md#plans) say first what would be done."
    yield ""
    yield from table("operation", "what it does", "jobs", "tables", "options", "queued", "planned", "right in SQL")
    for name, spec in SPECS.items():
        options = ", ".join(f"`{option}`" for option in sorted(option_names(name)))
        right = (spec.act or "") + (", or write for a scope of one's own" if spec.own else "")
        taken = (spec.tables, options, *_cells_of(spec.queueable, spec.plannable), right)
        yield row(f"`{name}`", spec.does, f"`{spec.prefix}-…`", *taken)


def statements() -> Iterator[str]:
    yield "Each statement with the right that it takes, beside reading the tables of its queries, and its result. A right is that"
    yield "of [who may do what](access.md). `EXECUTE AS USER 'u' (statement)` runs one as another user. `DRY RUN` returns a"
    yield "[plan](../operations.md#plans) instead; `FOR ALL USERS` means every scope of the table instead of the session's own."
    yield ""
    yield from table("statement", "what it does", "right", "result")
    for spec in statement_specs():
        results = " or ".join(_RESULTS[kind] for kind in get_args(spec.result) or (spec.result,))
        yield row(f"`{spec.syntax}`", spec.does, spec.right.says, results)


_RESULTS = {
    StatementDone: "a message",
    StartedJobs: "ids of jobs",
    ResultRows: "rows",
    AffectedRows: "a number of rows",
    Events: "events",
}


def _cells_of(*values: bool) -> tuple[str, ...]:
    return tuple("yes" if value else "no" for value in values)


def column_types() -> Iterator[str]:
    yield "Names are read in any case. `TIME` is microseconds since midnight. The declared name of every column is in"
    yield "the Delta table under the column's metadata `lakewarden.type`."
    yield ""
    yield from table("type", "also written", "Arrow", "in a primary key")
    for name in (*types._ARROW, "DECIMAL(p,s)"):
        kind = ColumnType.parse("DECIMAL(10,2)" if name.startswith("DECIMAL") else name)
        arrow = "decimal128(p, s)" if name.startswith("DECIMAL") else str(kind.arrow)
        also = ", ".join(alias for alias, meant in types._ALIASES.items() if meant == name)
        yield row(name, also or "-", f"`{arrow}`", "no" if name in NO_KEY else "yes")


def templates() -> Iterator[str]:
    yield "Options are given in `WITH (…)`, by name in any case. A text may stand for a number, a truth value, or a list of one."
    for template in SHIPPED:
        yield from ("", f"## {template.name}", "", inspect.getdoc(inspect.getmodule(template.read)) or "", "")
        extensions = ", ".join(f"`.{each}`" for each in template.accepted_extensions)
        yield f"Extensions: {extensions}."
        hints = get_type_hints(template.options, include_extras=True)
        if options := fields(template.options):
            yield ""
            yield from table("option", "default", "what it does")
            for option in options:
                said = next((each for each in get_args(hints[option.name]) if isinstance(each, msgspec.Meta)), msgspec.Meta())
                first = None if option.default is MISSING else option.default
                yield row(f"`{option.name}`", default(first), said.description or "")


def _raised() -> list[type[LakewardenError]]:
    """The classes of the module that say what happened; the three above them only sort."""
    classes = [one for one in vars(family).values() if isinstance(one, type) and issubclass(one, LakewardenError)]
    return [one for one in classes if one not in (LakewardenError, Terminal, Transient)]


def _first_line(documented: type) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0]
