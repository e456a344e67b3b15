"""Suites of Great Expectations that users bring: each expectation of a table is an asset check over some of its scopes.

A suite is a file as Great Expectations 1.x saves it. It is read when the code location loads, without Great Expectations, which
takes seconds to load: that is imported when a check runs.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakewarden.base.scope import TableName
from lakewarden.catalog.state.failed_checks import EXPECTATION
from lakewarden.errors import InvalidArgument

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

FOLDER = "expectations"
"""Beside `lakewarden.toml`: `<namespace>.<table>.json`."""

LOADS = "expectations_load"
"""The check of a table whose suite cannot be read, in place of those of the suite; of the warehouse's health, where there is no
such table."""

PLACE = "lakewarden"
"""In an expectation's meta: its place in the suite, by which its result is found."""

_LONGEST = 100

UNEXPECTED_ROWS = "unexpected_rows_expectation"
"""The one type of Great Expectations' own that does not begin as the others do: a query of the rows that should not be there."""


class SuiteObject(Protocol):
    """What `ExpectationSuite` has: Great Expectations is not imported for it."""

    def to_json_dict(self) -> Mapping[str, object]: ...


SuiteSource = Mapping[str, object] | SuiteObject | str | Path
"""A suite, as an object of Great Expectations or as its `to_json_dict()`, or the path of its file."""


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
    comment: str = ""
    """The description that its author wrote."""
    only_warns: bool = False
    """Whether its severity is below `critical`."""

    @property
    def description(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return "\n\n".join(filter(None, [self.comment, f"Great Expectations: {self.type}({said})"]))

    def made(self, place: int, arguments: Mapping[str, object]) -> Expectation:
        """Raises Exception: Great Expectations knows no such expectation, or not these arguments."""
        with old_modules():
            from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

        found = ExpectationConfiguration(type=self.type, kwargs=dict(arguments), meta={PLACE: place})
        made: Expectation = found.to_domain_obj()
        return made


@dataclass(frozen=True)
class Suite:
    """The expectations of one table."""

    name: str
    """Of its table, as it stands in the file's name or in the code."""
    checks: tuple[ExpectedCheck, ...] = ()
    error: str = ""
    """Which file cannot be read, and why; empty if it can."""

    @property
    def table(self) -> TableName | None:
        """None where the name is not a table's."""
        try:
            return TableName.parse(self.name)
        except InvalidArgument:
            return None


def suites_of(sources: Mapping[str, SuiteSource] | None) -> list[Suite]:
    """The suites by the names of their tables; without any, those of the folder `expectations`, if it is there."""
    files: Mapping[str, SuiteSource] = {
        path.stem: path for path in sorted(Path(FOLDER).glob("*.json")) if not path.name.startswith(".")
    }
    return [_suite(name, one) for name, one in (files if sources is None else sources).items()]


def _suite(name: str, source: SuiteSource) -> Suite:
    where = f"{source}: " if isinstance(source, str | Path) else ""
    try:
        return Suite(name, tuple(_named(_expectations(_content(source)))))
    except (OSError, ValueError, RecursionError, InvalidArgument) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else f"{error}"
        return Suite(name, error=f"{where}{why}")


def _content(source: SuiteSource) -> object:
    if isinstance(source, str | Path):
        return json.loads(Path(source).read_text(encoding="utf-8-sig"))
    return source if isinstance(source, Mapping) else source.to_json_dict()


def _expectations(found: object) -> Iterator[ExpectedCheck]:
    entries = found.get("expectations") if isinstance(found, Mapping) else None
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise InvalidArgument("the suite has no list `expectations`: save it by Great Expectations 1.x")
    for entry in entries:
        yield _expectation(entry if isinstance(entry, Mapping) else {"type": entry})


def _expectation(entry: Mapping[str, object]) -> ExpectedCheck:
    type_, arguments = entry.get("type"), entry.get("kwargs") or {}
    of_known_form = isinstance(type_, str) and (type_.startswith(EXPECTATION) or type_ == UNEXPECTED_ROWS)
    if not isinstance(type_, str) or not of_known_form or not isinstance(arguments, Mapping):
        older = ", and was written by a version before 1.0" if "expectation_type" in entry else ""
        raise InvalidArgument(
            f"{dict(entry)!r:.200} is not an expectation{older}: it needs a `type` such as expect_column_values_to_not_be_null"
        )
    return ExpectedCheck(
        _spelled(type_, arguments),
        type_,
        {key: arguments[key] for key in arguments if key != "batch_id"},
        str(entry.get("description") or ""),
        entry.get("severity") in ("warning", "info"),
    )


def _spelled(type_: str, arguments: Mapping[str, object]) -> str:
    columns = arguments.get("column") or arguments.get("column_list") or arguments.get("column_set") or ""
    begin = type_ if type_.startswith(EXPECTATION) else f"{EXPECTATION}no_{type_.removesuffix('_expectation')}"
    parts = [begin, *([columns] if isinstance(columns, str) else map(str, columns if isinstance(columns, list) else []))]
    return re.sub("[^A-Za-z0-9]+", "_", "_".join(filter(None, parts)))[:_LONGEST]


def _named(checks: Iterator[ExpectedCheck]) -> Iterator[ExpectedCheck]:
    """Each with a name of its own: a column may have two expectations of one type."""
    taken = Counter[str]()
    for one in checks:
        taken[one.name] += 1
        number = taken[one.name]
        yield replace(one, name=f"{one.name}__{number}") if number > 1 else one
