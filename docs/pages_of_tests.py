"""The pages that say what tests state: lines of the seeds, states of damage, values door by door, mutations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from docs.markdown import row, table
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


def damage() -> Iterator[str]:
    yield "States in which a warehouse can be after the loss of a machine, a mount or an object; what each interface reports;"
    yield "and what is lost after `lakewarden repair` (`repair --restored` after a backup was restored). Tests create each one."
    yield ""
    yield from table("state", "read", "check", "write", "flush", "repair", "rows lost")
    for state in STATES:
        command = "`repair --restored`" if state.restored else "mount it" if state.item == 3 else "`repair`"
        lost = "not known" if state.lost is None else str(state.lost)
        yield row(
            state.name, state.read, state.check, state.write, state.flush, command, f"{lost}{state.why and f': {state.why}'}"
        )
    yield ""
    yield "A stream, a consumer or a pipeline goes on behind the repair where all of its rows are back. Where a row is lost or"
    yield "set apart, where a part of the write log is lost, and where the state is older than the data, it stops with"
    yield "`FAILED_PRECONDITION` until it is resumed ([writers that stop](../operations.md#writers-that-stop))."
    yield from ("", "## Pipelines", "", "The same of the ledger of a pipeline, and of its table.", "")
    yield from table("state", "check", "ingest", "repair", "the next ingest")
    for one in PIPELINE_STATES:
        command = "`repair --restored`" if one.restored else "`repair`"
        yield row(one.name, "CORRUPT", one.ingest, command, one.then)


def values() -> Iterator[str]:
    yield "A value is stored as it was given, or refused with its place. Tests try every type through every door, and read"
    yield "what is stored, hot and cold, by Lakewarden, delta-rs and DuckDB: the least, the greatest and the longest value, what"
    yield "is empty or no number, and two that are a unit apart. `=`: each is stored as it was given. TIME is its microseconds,"
    yield "and JSON its text. A pipeline's table has the types that its first object shows: a UUID of CSV is the same text, in a"
    yield "TEXT column. What a column does not hold, as a digit too many, is refused by every door."
    yield ""
    yield from table("door", *COLUMN_TYPES)
    notes: dict[tuple[str, bool], int] = {}
    for door in (*DOORS, SPARK):
        yield row(door.name, *(_cell(door.name, kind, notes) for kind in COLUMN_TYPES))
    yield ""
    for (reason, null), number in notes.items():
        yield f"{number}. {'NULL' if null else 'Refused'}: {reason}."
    yield from ("", "The values that are tried:", "")
    yield from table("type", "values")
    for kind in COLUMN_TYPES:
        yield row(kind, ", ".join(each.label for each in SAMPLES if each.type == kind))


def _cell(door: str, kind: str, notes: dict[tuple[str, bool], int]) -> str:
    """`=`, with what is not stored so and the number of its reason."""
    found = [each for each in EXCEPTIONS if (each.door, each.type) == (door, kind)]
    numbers = [notes.setdefault((each.reason, each.null), len(notes) + 1) for each in found]
    return "=" + "".join(f"; {', '.join(each.labels)}: {number}" for each, number in zip(found, numbers, strict=True))


def k3_lines() -> Iterator[str]:
    yield "What K3 Tables states, a line each. The tests are in `tests/client/k3/`, through `lake.k3`; those of the wire form in"
    yield "`tests/serve/http/`, over HTTP."
    yield from _lines("K3", k3.SECTIONS, k3.line_tests())
    yield from ("", "## What differs from the seed", "")
    yield from table("the seed says", "here", "why", "test")
    for one in k3.DIFFERENCES:
        yield row(one.says, one.here, one.why, f"`{one.test}`" if one.test else "")
    yield from ("", "## The calls over HTTP", "")
    yield "Each test runs with a stock HTTP client, whose answers are checked by the OpenAPI document, and with a client that is"
    yield "generated from it."
    yield ""
    yield from table("call", "tests")
    for call, names in k3.call_tests().items():
        yield row(f"`{call}`", ", ".join(f"`{name}`" for name in names))


def flip188_lines() -> Iterator[str]:
    yield "What FLIP-188 (built-in dynamic table) states, a line each. The tests are in `tests/tables/dynamic/` and beside it."
    yield from ("", "## What differs", "")
    yield from table("line", "the seed", "here", "why")
    for each in flip188.DIFFERENCES:
        yield row(", ".join(f"FL-{number}" for number in each.lines), each.seed, each.here, each.why)
    yield from _lines("FL", flip188.SECTIONS, flip188.line_tests())


def published_tests() -> Iterator[str]:
    yield "What Spark tests of Python data sources, and table-store and Paimon of changelog modes, overwrites, scan modes,"
    yield "buckets and retention: each test with the one here that stands for it, or why there is none. Read at table-store"
    yield "`release-0.1.0`, Paimon `5dacde5`, and Spark between 4.1 and 4.2, without what 4.1 lacks (limits and offsets)."
    files = published.our_tests()
    for suite in published.SUITES:
        yield from ("", f"## {suite.title}", "")
        yield from table("theirs", "here")
        for one in suite.rows:
            theirs = ", ".join(f"`{name}`" for name in one.theirs.split())
            ours = [f"`{files[name]}::test_{name.partition('::')[2]}`" for name in one.ours.split()]
            yield row(theirs, "; ".join((*ours, *([one.reason] if one.reason else []))))


def _lines(name: str, sections: Sections, tests: Mapping[int, str]) -> Iterator[str]:
    for section, lines in sections.items():
        yield from ("", f"## {section}", "")
        yield from table("line", "says", "outcome", "test")
        for line in lines:
            outcome = f"{line.outcome}: {line.reason}" if line.reason else line.outcome
            yield row(f"{name}-{line.number}", line.says, outcome, f"`{tests[line.number]}`" if line.number in tests else "")


def mutations() -> Iterator[str]:
    every = listed()
    yield f"{len(every)} small faults. `make mutate` puts each into a copy of the code, runs its tests, and fails if none of them"
    yield "fails ([why](../decisions/0132-mutations-by-place.md))."
    for room, group in groupby(every, key=lambda one: one.module.split(".")[1]):
        yield from ("", f"## {room}", "")
        yield from table("rule", "fault", "in", "seen by")
        for one in group:
            place = f"`{one.module.partition('.')[2]}` `{one.at}`"
            yield row(one.rule, one.name, place, f"none: {one.excused}" if one.excused else _seen_by(one))


def _seen_by(mutation: Mutation) -> str:
    return ", ".join(f"`{test.removeprefix('tests/')}`" for test in mutation.tests)
