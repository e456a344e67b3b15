"""Suites of Great Expectations that users bring: each expectation of a table is an asset check over some of its scopes.

A suite is a file as Great Expectations 1.x saves it. It is read when the code location loads, without Great Expectations, which
takes seconds to load: that is imported when a check runs.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakewarden.errors import InvalidArgument
from lakewarden.scope import TableName
from lakewarden.state.failed_checks import EXPECTATION

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

FOLDER = "expectations"
"""Beside `lakewarden.toml`: `<namespace>.<table>.json`."""

LOADS = "expectations_load"
"""The check of a table whose suite cannot be read; it stands in place of those of the suite."""

PLACE = "lakewarden"
"""In an expectation's meta: its place in the suite, by which its result is found."""

_LONGEST = 100

Given = Mapping[str, object] | str | Path
"""A suite as a value, as `ExpectationSuite.to_json_dict()` has it, or the path of its file."""


@contextmanager
def old_modules() -> Iterator[None]:
    """Great Expectations imports modules that Python 3.13 removed, some of them only when it validates."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "module 'sre_", DeprecationWarning)
        yield


@dataclass(frozen=True)
class ExpectedCheck:
    """One expectation, and the name of its check."""

    name: str
    type: str
    arguments: Mapping[str, object]

    @property
    def description(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"Great Expectations: {self.type}({said})"

    def maker(self, place: int) -> Callable[[], Expectation]:
        """Raises:
        Exception: Great Expectations knows no such expectation, or not these arguments.
        """

        def make() -> Expectation:
            with old_modules():
                from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

            found = ExpectationConfiguration(type=self.type, kwargs=dict(self.arguments), meta={PLACE: place})
            made: Expectation = found.to_domain_obj()
            return made

        return make


@dataclass(frozen=True)
class Suite:
    """The expectations of one table."""

    table: TableName
    checks: tuple[ExpectedCheck, ...] = ()
    error: str = ""
    """Why it cannot be read; empty if it can."""


def suites_of(given: Mapping[str, Given] | None) -> list[Suite]:
    """The suites by the names of their tables; without any, those of the folder `expectations`, if it is there."""
    files: Mapping[str, Given] = {path.stem: path for path in sorted(Path(FOLDER).glob("*.json"))}
    return [_suite(name, one) for name, one in (files if given is None else given).items()]


def _suite(name: str, given: Given) -> Suite:
    """Raises:
    InvalidArgument: the name is none of a table.
    """
    table = TableName.parse(name)
    try:
        found = json.loads(Path(given).read_text()) if isinstance(given, str | Path) else given
        return Suite(table, tuple(_named(_expectations(found))))
    except (OSError, ValueError, InvalidArgument) as error:
        return Suite(table, error=f"{error}")


def _expectations(found: object) -> Iterator[ExpectedCheck]:
    entries = found.get("expectations") if isinstance(found, Mapping) else None
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise InvalidArgument("the suite has no list `expectations`: save it by Great Expectations 1.x")
    for entry in entries:
        type_ = entry.get("type") if isinstance(entry, Mapping) else None
        arguments = entry.get("kwargs", {}) if isinstance(entry, Mapping) else None
        if not isinstance(type_, str) or not type_.startswith(EXPECTATION) or not isinstance(arguments, Mapping):
            raise InvalidArgument(
                f"{entry!r:.200} is no expectation: it needs a `type` such as expect_column_values_to_not_be_null"
            )
        yield ExpectedCheck(_spelled(type_, arguments), type_, {key: arguments[key] for key in arguments if key != "batch_id"})


def _spelled(type_: str, arguments: Mapping[str, object]) -> str:
    columns = arguments.get("column") or arguments.get("column_list") or arguments.get("column_set") or ""
    parts = [type_, *([columns] if isinstance(columns, str) else map(str, columns if isinstance(columns, list) else []))]
    return re.sub("[^A-Za-z0-9]+", "_", "_".join(filter(None, parts)))[:_LONGEST]


def _named(checks: Iterator[ExpectedCheck]) -> Iterator[ExpectedCheck]:
    """Each with a name of its own: a column may have two expectations of one type."""
    taken = Counter[str]()
    for one in checks:
        taken[one.name] += 1
        number = taken[one.name]
        yield replace(one, name=f"{one.name}__{number}") if number > 1 else one
